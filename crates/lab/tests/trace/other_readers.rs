//! Reads rows of all kinds with this reader and with other programs: `pyarrow`, `DuckDB`, Polars.

use super::{events, info};
use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::{Tolerance, TraceReader, salvage};
use larder_testkit::{Random, Seed, report_skipped, tool};
use larder_trace::{Batch, FilePath, FileRead, Row, TraceEvent, TraceWriter};
use std::path::Path;
use std::process::Command;

/// Each script creates `rows` from its input file.
const PYARROW: &str = "
import sys, pyarrow.parquet as parquet
table = parquet.read_table(sys.argv[1])
rows = table.to_pylist()
assert parquet.read_metadata(sys.argv[1]).metadata[b'larder.trace.version'] == b'2'
assert str(table.schema.field('cache').type) in ('string', 'large_string')
";
const DUCKDB: &str = "
import sys, duckdb
found = duckdb.sql(f\"SELECT * FROM '{sys.argv[1]}'\")
rows = [dict(zip(found.columns, row)) for row in found.fetchall()]
";
const POLARS: &str = "
import sys, polars
rows = polars.read_parquet(sys.argv[1]).to_dicts()
";
/// Prints the number of rows, the hits of pages, sums that depend on the order, and the paths.
const SUMS: &str = "
hits = sum(row['hit'] for row in rows if row['cache'] == 'page')
names = ['time', 'device', 'inode', 'index', 'name_hash']
operations = ['lookup', 'insert', 'remove', 'evict', 'read', 'fault', 'name']
for row in rows:
    row['operation'] = operations.index(row['operation'])
names += ['operation', 'offset', 'length', 'file_size', 'stream', 'thread', 'duration']
print(len(rows), hits, *(sum((i + 1) * row[name] for i, row in enumerate(rows)) for name in names))
print(*(f\"{i}:{row['path']}\" for i, row in enumerate(rows) if row['path']))
";

fn read_by(python: &Path, script: &str, trace: &Path) -> Option<String> {
    let script = format!("{script}{SUMS}");
    let output = Command::new(python)
        .arg("-c")
        .arg(&script)
        .arg(trace)
        .output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("ModuleNotFoundError") {
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn other_readers_read_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.parquet");
    let rows = rows(Seed::from_environment(6), 5000);
    write_rows(&trace, &rows, 2000);
    let numbered = || (0_u128..).zip(&rows);
    let sum = |column: fn(&Row) -> u64| {
        let weighed = numbered().map(|(number, row)| (number + 1) * u128::from(column(row)));
        weighed.sum::<u128>().to_string()
    };
    let is_hit = |row: &&Row| {
        matches!(row, Row::Cache(event) if event.cache == CacheKind::Page
            && event.operation == Operation::Lookup { hit: true })
    };
    let paths = numbered().filter_map(|(number, row)| match row {
        Row::Path(path) => Some(format!("{number}:{}", path.path)),
        _ => None,
    });
    let paths: Vec<_> = paths.collect();
    let numbers = [
        rows.len().to_string(),
        rows.iter().filter(is_hit).count().to_string(),
        sum(|row| common(row).0),
        sum(|row| common(row).1.into()),
        sum(|row| common(row).2),
        sum(|row| of_event(row).map_or(0, |event| event.index)),
        sum(|row| of_event(row).map_or(0, |event| event.name_hash)),
        sum(operation),
        sum(|row| of_read(row).map_or(0, |read| read.offset_bytes)),
        sum(|row| of_read(row).map_or(0, |read| read.len_bytes.into())),
        sum(|row| match row {
            Row::Path(path) => path.file_bytes,
            row => of_read(row).map_or(0, |read| read.file_bytes),
        }),
        sum(|row| of_read(row).map_or(0, |read| read.stream)),
        sum(|row| of_read(row).map_or(0, |read| read.thread.into())),
        sum(|row| of_read(row).map_or(0, |read| read.duration_ns)),
    ];
    let expected = format!("{}\n{}", numbers.join(" "), paths.join(" "));
    let Some(python) = tool::python() else {
        return report_skipped("python3 is not installed");
    };
    for (name, script) in [("pyarrow", PYARROW), ("duckdb", DUCKDB), ("polars", POLARS)] {
        match read_by(&python, script, &trace) {
            Some(read) => assert_eq!(read, expected, "{name}"),
            None => report_skipped(format!("python3 has no {name}: make python-tools")),
        }
    }
}

/// Returns `count` rows of all kinds.
fn rows(seed: Seed, count: usize) -> Vec<Row> {
    let mut random = Random::new(seed.part(1));
    let row = |event: TraceEvent| {
        let TraceEvent {
            time_ns,
            device,
            inode,
            ..
        } = event;
        match random.below(10) {
            0 => Row::Path(FilePath {
                time_ns,
                device,
                inode,
                file_bytes: random.below(1 << 40),
                path: format!("/dir/ä{inode}").into(),
            }),
            1..4 => Row::Read(FileRead {
                time_ns,
                device,
                inode,
                offset_bytes: random.below(1 << 40),
                len_bytes: 1 << random.below(20),
                file_bytes: random.below(1 << 40),
                stream: random.below(5),
                thread: u32::MAX - u32::from(random.byte()),
                duration_ns: random.below(1 << 30),
                is_fault: random.below(2) == 0,
            }),
            _ => Row::Cache(event),
        }
    };
    events(seed, count).into_iter().map(row).collect()
}

fn write_rows(path: &Path, rows: &[Row], in_group: usize) {
    let mut writer = TraceWriter::create(path, &info()).unwrap();
    for group in rows.chunks(in_group) {
        for row in group {
            match row {
                Row::Cache(event) => writer.push(event),
                Row::Read(read) => writer.push_read(read),
                Row::Path(path) => writer.push_path(path),
            }
            .unwrap();
        }
        writer.write_row_group().unwrap();
    }
    writer.finish().unwrap();
}

fn of_event(row: &Row) -> Option<&TraceEvent> {
    match row {
        Row::Cache(event) => Some(event),
        _ => None,
    }
}

fn of_read(row: &Row) -> Option<&FileRead> {
    match row {
        Row::Read(read) => Some(read),
        _ => None,
    }
}

/// Returns the time, the device and the inode of a row.
fn common(row: &Row) -> (u64, u32, u64) {
    match row {
        Row::Cache(event) => (event.time_ns, event.device, event.inode),
        Row::Read(read) => (read.time_ns, read.device, read.inode),
        Row::Path(path) => (path.time_ns, path.device, path.inode),
    }
}

/// Returns the position of the row's operation in the list of the scripts.
fn operation(row: &Row) -> u64 {
    match row {
        Row::Cache(event) => match event.operation {
            Operation::Lookup { .. } => 0,
            Operation::Insert => 1,
            Operation::Remove => 2,
            Operation::Evict => 3,
        },
        Row::Read(read) => 4 + u64::from(read.is_fault),
        Row::Path(_) => 6,
    }
}

#[test]
fn rows_of_all_kinds_are_read_as_written_and_salvaged() {
    let seed = Seed::from_environment(12);
    let dir = tempfile::tempdir().unwrap();
    let [path, copy] = ["trace", "copy"].map(|name| dir.path().join(name));
    // More rows than a batch has, so that columns are passed over.
    let mut rows = rows(seed, 3000);
    let quiet = events(seed.part(2), 100_000).into_iter().map(Row::Cache);
    rows.splice(1000..1000, quiet);
    write_rows(&path, &rows, 90_000);
    salvage(&path, &copy).unwrap();
    for path in [&path, &copy] {
        let mut reader = TraceReader::open(path, Tolerance::Whole).unwrap();
        let (mut batch, mut read) = (Batch::default(), Vec::new());
        while reader.read(&mut batch).unwrap() {
            read.extend(batch.rows());
        }
        assert!(read == rows, "{seed}: {}", path.display());
    }
}
