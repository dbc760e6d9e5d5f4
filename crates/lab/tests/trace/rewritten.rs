//! Traces of version 1 that another program rewrote: with the columns, some metadata keys, and no checksums.

use super::{events, info, read_rest, write};
use larder_cache::tape::Operation;
use larder_lab::trace::{Error, Tolerance, TraceReader, TraceSummary};
use larder_testkit::{Random, Seed};
use larder_trace::TraceEvent;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

const ROWS: usize = 200;
const MUTATIONS: u64 = 500;
const VERSION: (&str, &str) = ("larder.trace.version", "1");

/// Returns a schema with the columns in another order, all optional, as other programs write them.
fn schema() -> Arc<Type> {
    let columns = [
        ("hit", Physical::BOOLEAN, None),
        ("time", Physical::INT64, None),
        ("cache", Physical::INT32, Some(8)),
        ("operation", Physical::INT32, Some(8)),
        ("device", Physical::INT32, Some(32)),
        ("inode", Physical::INT64, Some(64)),
        ("index", Physical::INT64, Some(64)),
        ("name_hash", Physical::INT64, Some(64)),
    ];
    let column = |(name, physical, bits): (&str, Physical, Option<i8>)| {
        let column = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(bits.map(|bits| LogicalType::integer(bits, false)));
        Arc::new(column.build().unwrap())
    };
    let columns = columns.into_iter().map(column).collect();
    let schema = Type::group_type_builder("schema").with_fields(columns);
    Arc::new(schema.build().unwrap())
}

fn write_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: impl IntoIterator<Item = T::T>,
) {
    let values: Vec<_> = values.into_iter().collect();
    let mut column = group.next_column().unwrap().unwrap();
    let levels = vec![1; values.len()];
    let written = column
        .typed::<T>()
        .write_batch(&values, Some(&levels), None);
    assert_eq!(written.unwrap(), values.len());
    column.close().unwrap();
}

/// Writes `events`, [`ROWS`] in each row group, with `keys`.
fn rewrite(path: &Path, events: &[TraceEvent], keys: &[(&str, &str)]) {
    let keys = keys.iter();
    let keys = keys.map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(keys.collect()))
        .build();
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema(), Arc::new(properties)).unwrap();
    for rows in events.chunks(ROWS) {
        let mut group = writer.next_row_group().unwrap();
        let is_hit = |event: &TraceEvent| event.operation == Operation::Lookup { hit: true };
        write_column::<BoolType>(&mut group, rows.iter().map(is_hit));
        let time = |event: &TraceEvent| event.time_ns.cast_signed();
        write_column::<Int64Type>(&mut group, rows.iter().map(time));
        write_column::<Int32Type>(&mut group, rows.iter().map(|event| event.cache as i32));
        let operation = |event: &TraceEvent| match event.operation {
            Operation::Lookup { .. } => 0,
            Operation::Insert => 1,
            Operation::Remove | Operation::Evict => 2,
        };
        write_column::<Int32Type>(&mut group, rows.iter().map(operation));
        let device = |event: &TraceEvent| event.device.cast_signed();
        write_column::<Int32Type>(&mut group, rows.iter().map(device));
        for number in [
            |event: &TraceEvent| event.inode,
            |event: &TraceEvent| event.index,
            |event: &TraceEvent| event.name_hash,
        ] {
            let number = rows.iter().map(|event| number(event).cast_signed());
            write_column::<Int64Type>(&mut group, number);
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn rewritten_trace_is_read_without_its_stale_checksums() {
    let seed = Seed::from_environment(9);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let mut events = events(seed, 3 * ROWS);
    // Version 1 has no evictions.
    for event in &mut events {
        if event.operation == Operation::Evict {
            event.operation = Operation::Remove;
        }
    }
    let info_json = serde_json::to_string(&info()).unwrap();
    for keys in [
        &[VERSION][..],
        &[
            VERSION,
            ("larder.trace", &info_json),
            ("larder.trace.crc32c", "[1, 2]"),
        ],
    ] {
        rewrite(&path, &events, keys);
        let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
        assert_eq!(reader.info().records_changes, keys.len() > 1);
        assert!(read_rest(&mut reader).unwrap() == events, "{seed}");
        let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
        assert!(!TraceSummary::of(&mut reader).unwrap().is_summed);
    }
    let path = dir.path().join("original");
    write(&path, &events, ROWS);
    assert!(
        TraceReader::open(&path, Tolerance::Whole)
            .unwrap()
            .is_summed()
    );
}

#[test]
fn rewritten_trace_without_a_version_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    rewrite(&path, &events(Seed::from_environment(9), ROWS), &[]);
    let opened = TraceReader::open(&path, Tolerance::Whole);
    assert!(matches!(opened, Err(Error::NoVersion)), "{opened:?}");
}

#[test]
fn damaged_trace_without_checksums_gives_rows_or_an_error() {
    let seed = Seed::from_environment(10);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    rewrite(&path, &events(seed, 3 * ROWS), &[VERSION]);
    let bytes = fs::read(&path).unwrap();
    let (mut read, mut refused) = (0, 0);
    for number in 0..MUTATIONS {
        let part = seed.part(number);
        let mut random = Random::new(part);
        let mut mutated = bytes.clone();
        // Damages the footer and the headers of pages most often, since they have the greatest
        // effect.
        let from = if number % 2 == 0 {
            0
        } else {
            bytes.len() - bytes.len() / 5
        };
        for _ in 0..=random.below(2) {
            let at = from as u64 + random.below((bytes.len() - from) as u64);
            mutated[usize::try_from(at).unwrap()] ^= 1 << random.below(8);
        }
        fs::write(&path, &mutated).unwrap();
        for tolerance in [Tolerance::Whole, Tolerance::UpToLastRowGroup] {
            let opened = TraceReader::open(&path, tolerance);
            match opened.and_then(|mut reader| read_rest(&mut reader)) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(
        read > 50 && refused > 50,
        "{seed}: {read} read, {refused} refused"
    );
}
