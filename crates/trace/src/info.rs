//! The description of a trace, in the key-value metadata of its footer.

use crate::Error;
use larder_cache::tape::CacheKind;
use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the schema.
pub const VERSION: &str = "2";
/// The version with numbers in the columns `cache` and `operation`, which can still be read.
pub const VERSION_WITH_NUMBERS: &str = "1";

/// The key of [`VERSION`].
pub const VERSION_KEY: &str = "larder.trace.version";
/// The key of a [`TraceInfo`], in JSON.
pub const INFO_KEY: &str = "larder.trace";
/// The key of the CRC-32C of each row group, in JSON.
pub const SUMS_KEY: &str = "larder.trace.crc32c";

/// The description of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent, and names of the JSON in traces"
)]
pub struct TraceInfo {
    /// A human-readable name of what was recorded.
    pub source: String,
    /// The start of the recording in seconds since 1970, or `None` if it is unknown.
    pub began_unix_s: Option<i64>,
    /// True if the trace contains insertions and removals. A replay then has the same entries as the recorded
    /// caches.
    #[serde(rename = "tells_changes")]
    pub records_changes: bool,
    /// True if the trace contains the reads of files.
    pub records_reads: bool,
    /// True if the trace contains the paths of files.
    pub records_paths: bool,
    /// The settings of the recorded mount, or `None` if the recording is not that of a mount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount: Option<MountInfo>,
    /// The counts of the caches of shared attributes, or `None` if it is unknown. It is known only at the end of a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<AttributeInfo>,
    /// The recorded tables, as far as they are known.
    pub tables: BTreeMap<CacheKind, TableInfo>,
    /// The number of events that were lost, because the writer was too slow or the file could not be written.
    pub lost: u64,
    /// The number of rows of reads and paths of files.
    pub file_rows: u64,
    /// True if the end of the trace is missing.
    pub is_cut_short: bool,
}

/// The settings of a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountInfo {
    /// The options with which the image was mounted, as for `-o`. They include those that were given as flags, if they
    /// affect the caches, readahead or access. Defaults are omitted.
    #[serde(default)]
    pub options: Vec<String>,
    /// The memory for all caches, in bytes.
    pub cache_bytes: u64,
    /// The name of the readahead policy.
    pub readahead: String,
    /// The size of the largest readahead window, in bytes.
    pub readahead_max_bytes: u64,
}

/// The use of the caches that find equal extended attributes (mbcache): those of blocks and of value inodes together. A
/// trace has no rows of these caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeInfo {
    /// The implementation: the value of the option `mbcache`.
    pub variant: String,
    /// The number of searches.
    pub lookups: u64,
    /// The number of searches that found an entry.
    pub hits: u64,
    /// The number of times that an existing attribute block or value inode was used instead of a new one.
    pub shares: u64,
    /// The number of entries that were evicted because a cache or the memory was full.
    pub evicted: u64,
}

/// The description of a table that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableInfo {
    /// The name of the hash function.
    pub function: String,
    /// The log2 of the number of buckets.
    pub bits: u32,
}

impl TraceInfo {
    /// Encodes the description as metadata of a footer, together with the checksums of the row groups that
    /// the footer describes.
    pub(crate) fn to_metadata(&self, sums: &[u32]) -> Result<Vec<KeyValue>, Error> {
        let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
        let json = |what: serde_json::Result<String>| what.map_err(|error| Error::Io(error.into()));
        Ok(vec![
            pair(VERSION_KEY, VERSION.to_owned()),
            pair(INFO_KEY, json(serde_json::to_string(self))?),
            pair(SUMS_KEY, json(serde_json::to_string(sums))?),
        ])
    }
}
