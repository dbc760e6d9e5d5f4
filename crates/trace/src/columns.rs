//! The columns of a trace.
//!
//! | column | type | content |
//! |---|---|---|
//! | `time` | INT64 | the time in nanoseconds since the recording began |
//! | `cache` | `BYTE_ARRAY` (`STRING`) | the kind of cache: one of [`CACHES`] |
//! | `operation` | `BYTE_ARRAY` (`STRING`) | one of [`OPERATIONS`] |
//! | `device` | INT32 (`UINT_32`) | the number of the device, `major << 20 \| minor`, or 0 if it is unknown |
//! | `inode` | INT64 (`UINT_64`) | the inode number of a page, inode or file; 0 for other caches |
//! | `index` | INT64 (`UINT_64`) | the index of a page in its file, the number of a block, or the inode number of a dentry's directory; 0 for inodes and files |
//! | `name_hash` | INT64 (`UINT_64`) | the hash of a dentry's name, or the number of pages of a memory area; 0 for all others |
//! | `hit` | BOOLEAN | true for a lookup that found its entry, and false for all other rows |
//! | `offset` | INT64 (`UINT_64`) | `read`, `fault`: the first byte |
//! | `length` | INT32 (`UINT_32`) | `read`, `fault`: the number of bytes |
//! | `file_size` | INT64 (`UINT_64`) | `read`, `fault`: the size of the file, or 0 if it is unknown |
//! | `stream` | INT64 (`UINT_64`) | `read`: the number of the open file, if it has a readahead state of its own |
//! | `thread` | INT32 (`UINT_32`) | `read`, `fault`: the thread that reads, or 0 if it is unknown |
//! | `duration` | INT64 (`UINT_64`) | `read`: nanoseconds from the start to the end, or 0 if it is unknown |
//! | `path` | `BYTE_ARRAY` (`STRING`) | `name`: the path of the file |
//!
//! The time of a read is the time of its end. The rows of one thread are in the order of time.
//!
//! No value is null: a number without meaning is 0, and a text without meaning is empty. In most traces the numbers in
//! some columns differ little from row to row: these columns are delta-encoded. The other columns have few distinct
//! values in a row group, and use a dictionary.
//!
//! In version 1, `cache` and `operation` are INT32 (`UINT_8`) with the indices of the first four [`CACHES`] and the first
//! three [`OPERATIONS`], and the columns after `hit` do not exist.

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

/// The values of the column `cache`. `file` is the value of rows that do not describe an entry of a cache.
pub const CACHES: [&str; 5] = ["page", "buffer", "dentry", "inode", "file"];
/// The values of the column `operation`. The first four are operations on entries of caches, the others have the
/// cache `file`.
pub const OPERATIONS: [&str; 7] = [
    "lookup", "insert", "remove", "evict", "read", "fault", "name",
];

/// The index of `file` in [`CACHES`].
pub const FILE: u8 = 4;
/// The index of `read` in [`OPERATIONS`].
pub const READ: u8 = 4;
/// The index of `fault` in [`OPERATIONS`].
pub const FAULT: u8 = 5;
/// The index of `name` in [`OPERATIONS`].
pub const NAME: u8 = 6;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// The time.
    Time,
    /// The kind of cache.
    Cache,
    /// The operation.
    Operation,
    /// The device.
    Device,
    /// The inode number.
    Inode,
    /// The page, block or directory.
    Index,
    /// The hash of a name.
    NameHash,
    /// The result of a lookup.
    Hit,
    /// The first byte of a read.
    Offset,
    /// The number of bytes of a read.
    Length,
    /// The size of the file that is read.
    FileSize,
    /// The open file that is read.
    Stream,
    /// The thread that reads.
    Thread,
    /// The time that a read takes.
    Duration,
    /// The path of a file.
    Path,
}

impl ColumnKind {
    /// All columns, in the order of the schema.
    pub const ALL: [Self; 15] = [
        Self::Time,
        Self::Cache,
        Self::Operation,
        Self::Device,
        Self::Inode,
        Self::Index,
        Self::NameHash,
        Self::Hit,
        Self::Offset,
        Self::Length,
        Self::FileSize,
        Self::Stream,
        Self::Thread,
        Self::Duration,
        Self::Path,
    ];

    /// Returns the name of the column.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Cache => "cache",
            Self::Operation => "operation",
            Self::Device => "device",
            Self::Inode => "inode",
            Self::Index => "index",
            Self::NameHash => "name_hash",
            Self::Hit => "hit",
            Self::Offset => "offset",
            Self::Length => "length",
            Self::FileSize => "file_size",
            Self::Stream => "stream",
            Self::Thread => "thread",
            Self::Duration => "duration",
            Self::Path => "path",
        }
    }

    /// Returns whether only rows of files use the column. Version 1 does not have these columns.
    #[must_use]
    pub fn is_for_files(self) -> bool {
        matches!(
            self,
            Self::Offset
                | Self::Length
                | Self::FileSize
                | Self::Stream
                | Self::Thread
                | Self::Duration
                | Self::Path
        )
    }

    /// Returns the type of the column.
    #[must_use]
    pub fn physical(self) -> PhysicalType {
        match self {
            Self::Cache | Self::Operation | Self::Path => PhysicalType::BYTE_ARRAY,
            Self::Device | Self::Length | Self::Thread => PhysicalType::INT32,
            Self::Hit => PhysicalType::BOOLEAN,
            _ => PhysicalType::INT64,
        }
    }

    /// Returns the meaning of the bits of the column, or `None` for signed numbers and booleans.
    fn logical(self) -> Option<LogicalType> {
        match (self, self.physical()) {
            (Self::Time, _) => None,
            (_, PhysicalType::BYTE_ARRAY) => Some(LogicalType::String),
            (_, PhysicalType::INT32) => Some(LogicalType::integer(32, false)),
            (_, PhysicalType::INT64) => Some(LogicalType::integer(64, false)),
            _ => None,
        }
    }

    /// Returns true if Parquet's writer encodes the differences of consecutive values.
    fn is_delta(self) -> bool {
        matches!(self, Self::Time | Self::Inode | Self::Index)
    }
}

/// Returns the schema of a trace.
///
/// # Errors
/// Returns Parquet's error if the columns are not a valid schema, which would be a bug.
pub fn schema() -> Result<TypePtr, ParquetError> {
    let fields = ColumnKind::ALL.iter().map(|column| {
        Type::primitive_type_builder(column.name(), column.physical())
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(column.logical())
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
    for column in ColumnKind::ALL {
        let path = ColumnPath::from(column.name());
        properties = properties.set_column_dictionary_enabled(path.clone(), !column.is_delta());
        if column == ColumnKind::Time {
            // Queries are likely to select rows by time.
            properties =
                properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
        }
        if column.is_delta() {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}

/// Returns the name of an operation in the column `operation`.
#[must_use]
pub fn name_of_operation(operation: Operation) -> &'static str {
    OPERATIONS[usize::from(code_of_operation(operation).0)]
}

/// Returns the index of `cache` in [`CACHES`].
pub(crate) fn code_of_cache(cache: CacheKind) -> u8 {
    match cache {
        CacheKind::Page => 0,
        CacheKind::Buffer => 1,
        CacheKind::Dentry => 2,
        CacheKind::Inode => 3,
    }
}

/// Returns the cache at `code` in [`CACHES`], or `None` for `file` and unknown codes.
#[must_use]
pub fn cache_of_code(code: u8) -> Option<CacheKind> {
    match code {
        0 => Some(CacheKind::Page),
        1 => Some(CacheKind::Buffer),
        2 => Some(CacheKind::Dentry),
        3 => Some(CacheKind::Inode),
        _ => None,
    }
}

/// Returns the index of `operation` in [`OPERATIONS`], and the value of the column `hit`.
pub(crate) fn code_of_operation(operation: Operation) -> (u8, bool) {
    match operation {
        Operation::Lookup { hit } => (0, hit),
        Operation::Insert => (1, false),
        Operation::Remove => (2, false),
        Operation::Evict => (3, false),
    }
}

/// Returns the operation on a cache at `code` in [`OPERATIONS`]. `hit` is the value of the column `hit`. Returns
/// `None` for other operations and unknown codes.
#[must_use]
pub fn operation_of_code(code: u8, hit: bool) -> Option<Operation> {
    match code {
        0 => Some(Operation::Lookup { hit }),
        1 => Some(Operation::Insert),
        2 => Some(Operation::Remove),
        3 => Some(Operation::Evict),
        _ => None,
    }
}
