//! The description of a trace, in the key-value metadata of its footer.

use crate::Error;
use crate::columns::{CACHES, OPERATIONS};
use larder_cache::tape::CacheKind;
use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the schema. A trace of another version is refused.
pub const VERSION: &str = "1";

/// The key of [`VERSION`].
pub const VERSION_KEY: &str = "larder.trace.version";
/// The key of a [`TraceInfo`], in JSON.
pub const INFO_KEY: &str = "larder.trace";
const CACHES_KEY: &str = "larder.trace.cache";
const OPERATIONS_KEY: &str = "larder.trace.operation";
/// The key of the CRC-32C of each row group, in JSON.
pub const SUMS_KEY: &str = "larder.trace.crc32c";

/// The description of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceInfo {
    /// A human-readable name of the source.
    pub source: String,
    /// The start of the recording, in seconds since 1970; `None` if unknown.
    pub began_unix_s: Option<i64>,
    /// Whether insertions and removals are recorded too, so that a replay knows exactly what was
    /// cached.
    #[serde(rename = "tells_changes")]
    pub records_changes: bool,
    /// The recorded tables. Unknown ones are missing.
    pub tables: BTreeMap<CacheKind, TableInfo>,
    /// Events that were lost because they arrived faster than they were written.
    pub lost: u64,
    /// Whether the end is missing, because the trace was salvaged.
    pub is_cut_short: bool,
}

/// A table that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableInfo {
    /// The name of its hash function.
    pub function: String,
    /// The table has 2^`bits` buckets.
    pub bits: u32,
}

impl TraceInfo {
    /// Encodes this as metadata, with the checksums of the row groups that it describes.
    pub(crate) fn to_metadata(&self, sums: &[u32]) -> Result<Vec<KeyValue>, Error> {
        let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
        let json = |what: serde_json::Result<String>| what.map_err(|error| Error::Io(error.into()));
        Ok(vec![
            pair(VERSION_KEY, VERSION.to_owned()),
            pair(INFO_KEY, json(serde_json::to_string(self))?),
            pair(CACHES_KEY, CACHES.join(",")),
            pair(OPERATIONS_KEY, OPERATIONS.join(",")),
            pair(SUMS_KEY, json(serde_json::to_string(sums))?),
        ])
    }
}
