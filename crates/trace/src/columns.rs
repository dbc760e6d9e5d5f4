//! The columns of a trace.
//!
//! | column | type | content |
//! |---|---|---|
//! | `time` | INT64 | nanoseconds since the recording began; never decreases within a thread |
//! | `cache` | INT32 (`UINT_8`) | 0 page, 1 buffer, 2 dentry, 3 inode |
//! | `operation` | INT32 (`UINT_8`) | 0 lookup, 1 insert, 2 remove |
//! | `device` | INT32 (`UINT_32`) | `major << 20 \| minor`, or 0 if unknown |
//! | `inode` | INT64 (`UINT_64`) | page, inode: the inode; else 0 |
//! | `index` | INT64 (`UINT_64`) | page: index of the page; buffer: block; dentry: the directory's inode; inode: 0 |
//! | `name_hash` | INT64 (`UINT_64`) | dentry: hash of the name; else 0 |
//! | `hit` | BOOLEAN | lookups: whether the entry was found; else false |
//!
//! No value is ever null. Columns whose numbers grow slowly from row to row in most traces are delta-encoded.
//! The others have few distinct values in a row group and use a dictionary.

use larder_cache::tape::{CacheKind, Operation};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use std::sync::Arc;

/// The writer's name, as in Parquet's `created_by`, without the version.
pub const WRITER: &str = "larder ";
/// The writer's name and version, as Parquet's `created_by`.
pub(crate) const CREATED_BY: &str = concat!("larder ", env!("CARGO_PKG_VERSION"));

/// The names of the values of `cache`, in order.
pub const CACHES: [&str; 4] = ["page", "buffer", "dentry", "inode"];
/// The names of the values of `operation`, in order.
pub const OPERATIONS: [&str; 3] = ["lookup", "insert", "remove"];

/// Name, type, bits of an unsigned number, and whether it is delta-encoded.
pub type Column = (&'static str, PhysicalType, Option<i8>, bool);

/// The columns, in order.
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
/// None, if [`COLUMNS`] is valid.
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

/// Returns the statistics to store for `column`. Queries select spans of time and one cache; minimum and
/// maximum of the other columns are of little use.
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

/// Returns the value of `cache` in its column.
pub(crate) fn code_of_cache(cache: CacheKind) -> i32 {
    match cache {
        CacheKind::Page => 0,
        CacheKind::Buffer => 1,
        CacheKind::Dentry => 2,
        CacheKind::Inode => 3,
    }
}

/// Returns the cache of a value of the column `cache`.
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

/// Returns the values of the columns `operation` and `hit`.
pub(crate) fn code_of_operation(operation: Operation) -> (i32, bool) {
    match operation {
        Operation::Lookup { hit } => (0, hit),
        Operation::Insert => (1, false),
        Operation::Remove => (2, false),
    }
}

/// Returns the operation of the values of the columns `operation` and `hit`.
#[must_use]
pub fn operation_of_code(code: i32, hit: bool) -> Option<Operation> {
    match code {
        0 => Some(Operation::Lookup { hit }),
        1 => Some(Operation::Insert),
        2 => Some(Operation::Remove),
        _ => None,
    }
}
