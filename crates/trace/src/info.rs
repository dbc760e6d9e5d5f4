//! The description of a trace, in the key-value metadata of its footer.

use crate::Error;
use crate::columns::{CACHES, OPERATIONS};
use larder_cache::tape::CacheKind;
use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the schema. A trace with another version cannot be read.
pub const VERSION: &str = "1";

/// The key of [`VERSION`].
pub const VERSION_KEY: &str = "larder.trace.version";
/// The key of a [`TraceInfo`], in JSON.
pub const INFO_KEY: &str = "larder.trace";
const CACHES_KEY: &str = "larder.trace.cache";
const OPERATIONS_KEY: &str = "larder.trace.operation";
/// The key of the CRC-32C of each row group, in JSON.
pub const SUMS_KEY: &str = "larder.trace.crc32c";

/// The description of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceInfo {
    /// A human-readable name of what was recorded.
    pub source: String,
    /// The start of the recording in seconds since 1970, or `None` if it is unknown.
    pub began_unix_s: Option<i64>,
    /// True if the trace contains insertions and removals, so that a replay has the same entries as the
    /// recorded caches.
    #[serde(rename = "tells_changes")]
    pub records_changes: bool,
    /// The recorded tables, as far as they are known.
    pub tables: BTreeMap<CacheKind, TableInfo>,
    /// The number of events that were lost, because the writer was too slow or the file could not be written.
    pub lost: u64,
    /// True if the end of the trace is missing.
    pub is_cut_short: bool,
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
            pair(CACHES_KEY, CACHES.join(",")),
            pair(OPERATIONS_KEY, OPERATIONS.join(",")),
            pair(SUMS_KEY, json(serde_json::to_string(sums))?),
        ])
    }
}
