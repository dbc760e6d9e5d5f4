//! The columns of a trace.
//!
//! | column | type | content |
//! |---|---|---|
//! | `time` | INT64 | the time in nanoseconds since the recording began; the rows of one thread are in the order of time |
//! | `cache` | INT32 (`UINT_8`) | the kind of cache: 0 page, 1 buffer, 2 dentry, 3 inode |
//! | `operation` | INT32 (`UINT_8`) | the operation: 0 lookup, 1 insert, 2 remove |
//! | `device` | INT32 (`UINT_32`) | the number of the device, `major << 20 \| minor`, or 0 if it is unknown |
//! | `inode` | INT64 (`UINT_64`) | the inode number of a page or inode; 0 for other caches |
//! | `index` | INT64 (`UINT_64`) | the index of a page in its file, the number of a block, or the inode number of a dentry's directory; 0 for inodes |
//! | `name_hash` | INT64 (`UINT_64`) | the hash of a dentry's name, or the number of pages of a memory area; 0 for all others |
//! | `hit` | BOOLEAN | true for a lookup that found its entry, and false for all other events |
//!
//! No value is null. In most traces the numbers in some columns differ little from row to row: these columns
//! are delta-encoded. The other columns have few distinct values in a row group, and use a dictionary.

use larder_cache::tape::{CacheKind, Operation};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use std::sync::Arc;

/// The start of Parquet's `created_by` in traces that Larder wrote: the value without the version.
pub const WRITER: &str = "larder ";
/// The value of Parquet's `created_by`: the name and version of the writer.
pub(crate) const CREATED_BY: &str = concat!("larder ", env!("CARGO_PKG_VERSION"));

/// The names of the values 0 to 3 of the column `cache`.
pub const CACHES: [&str; 4] = ["page", "buffer", "dentry", "inode"];
/// The names of the values 0 to 2 of the column `operation`.
pub const OPERATIONS: [&str; 3] = ["lookup", "insert", "remove"];

/// A column: its name, its type, its bits if it is an unsigned number, and true if it is delta-encoded.
pub type Column = (&'static str, PhysicalType, Option<i8>, bool);

/// The columns, in the order of the schema.
pub const COLUMNS: [Column; 8] = [
    ("time", PhysicalType::INT64, None, true),
    ("cache", PhysicalType::INT32, Some(8), false),
    ("operation", PhysicalType::INT32, Some(8), false),
    ("device", PhysicalType::INT32, Some(32), false),
    ("inode", PhysicalType::INT64, Some(64), true),
    ("index", PhysicalType::INT64, Some(64), true),
    ("name_hash", PhysicalType::INT64, Some(64), false),
    ("hit", PhysicalType::BOOLEAN, None, false),
];

/// Returns the schema of a trace.
///
/// # Errors
/// Returns Parquet's error if [`COLUMNS`] is not a valid schema, which would be a bug.
pub fn schema() -> Result<TypePtr, ParquetError> {
    let fields = COLUMNS.iter().map(|&(name, physical, bits, _)| {
        let logical = bits.map(|bits| LogicalType::integer(bits, false));
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    });
    let schema = Type::group_type_builder("trace")
        .with_fields(fields.collect::<Result<_, _>>()?)
        .build()?;
    Ok(Arc::new(schema))
}

/// Returns the writer settings of a trace.
pub(crate) fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(1 << 17)
        .set_write_batch_size(1 << 13);
    for (name, _, _, is_delta) in COLUMNS {
        let path = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), !is_delta)
            .set_column_statistics_enabled(path.clone(), statistics_of(name));
        if is_delta {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}

/// Returns the statistics to store for `column`: minimum and maximum if queries are likely to select rows by
/// the column.
fn statistics_of(column: &str) -> EnabledStatistics {
    match column {
        "time" | "cache" => EnabledStatistics::Chunk,
        _ => EnabledStatistics::None,
    }
}

/// Returns the name of an operation in the column `operation`.
#[must_use]
pub fn name_of_operation(operation: Operation) -> &'static str {
    let [lookup, insert, remove] = OPERATIONS;
    match operation {
        Operation::Lookup { .. } => lookup,
        Operation::Insert => insert,
        Operation::Remove => remove,
    }
}

/// Returns the value of the column `cache` for `cache`.
pub(crate) fn code_of_cache(cache: CacheKind) -> i32 {
    match cache {
        CacheKind::Page => 0,
        CacheKind::Buffer => 1,
        CacheKind::Dentry => 2,
        CacheKind::Inode => 3,
    }
}

/// Returns the cache whose value in the column `cache` is `code`.
#[must_use]
pub fn cache_of_code(code: i32) -> Option<CacheKind> {
    match code {
        0 => Some(CacheKind::Page),
        1 => Some(CacheKind::Buffer),
        2 => Some(CacheKind::Dentry),
        3 => Some(CacheKind::Inode),
        _ => None,
    }
}

/// Returns the values of the columns `operation` and `hit` for `operation`.
pub(crate) fn code_of_operation(operation: Operation) -> (i32, bool) {
    match operation {
        Operation::Lookup { hit } => (0, hit),
        Operation::Insert => (1, false),
        Operation::Remove => (2, false),
    }
}

/// Returns the operation for the values of the columns `operation` (`code`) and `hit`.
#[must_use]
pub fn operation_of_code(code: i32, hit: bool) -> Option<Operation> {
    match code {
        0 => Some(Operation::Lookup { hit }),
        1 => Some(Operation::Insert),
        2 => Some(Operation::Remove),
        _ => None,
    }
}
