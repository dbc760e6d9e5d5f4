//! What a trace says of itself, in the key-value metadata of its footer.

use super::Error;
use super::columns::{CACHES, OPERATIONS};
use larder_cache::tape::CacheKind;
use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema's version. A trace of another one is refused.
pub(super) const VERSION: &str = "1";

/// The keys.
const VERSION_KEY: &str = "larder.trace.version";
const INFO_KEY: &str = "larder.trace";
const CACHES_KEY: &str = "larder.trace.cache";
const OPERATIONS_KEY: &str = "larder.trace.operation";
const SUMS_KEY: &str = "larder.trace.crc32c";

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceInfo {
    /// From what, for people.
    pub source: String,
    /// When the recording began, in seconds since 1970; `None` if it is not known.
    pub began_unix_s: Option<i64>,
    /// Whether inserts and removals are told of, too: a cache can then be followed to the letter.
    pub tells_changes: bool,
    /// The tables that were asked; those not known are missing.
    pub tables: BTreeMap<CacheKind, TableInfo>,
    /// Events that were not kept, since they came faster than they were written.
    pub lost: u64,
    /// Whether the end is missing: the trace was salvaged.
    pub is_cut_short: bool,
}

/// A table that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableInfo {
    /// Its hash function, by name.
    pub function: String,
    /// It has 2^`bits` buckets.
    pub bits: u32,
}

impl TraceInfo {
    /// As metadata, with the sums of the row groups that it is for.
    pub(super) fn to_metadata(&self, sums: &[u32]) -> Result<Vec<KeyValue>, Error> {
        let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
        let json = |what: serde_json::Result<String>| what.map_err(Error::encode);
        Ok(vec![
            pair(VERSION_KEY, VERSION.to_owned()),
            pair(INFO_KEY, json(serde_json::to_string(self))?),
            pair(CACHES_KEY, CACHES.join(",")),
            pair(OPERATIONS_KEY, OPERATIONS.join(",")),
            pair(SUMS_KEY, json(serde_json::to_string(sums))?),
        ])
    }

    /// From metadata, with the sums of row groups that it has.
    pub(super) fn of_metadata(metadata: Option<&Vec<KeyValue>>) -> Result<(Self, Vec<u32>), Error> {
        let value = |key: &str| {
            let pairs = metadata.into_iter().flatten();
            let mut values = pairs.filter(|pair| pair.key == key);
            values.find_map(|pair| pair.value.as_deref())
        };
        match value(VERSION_KEY) {
            Some(VERSION) => {}
            Some(version) => return Err(Error::Version(version.to_owned())),
            None => return Err(Error::NoVersion),
        }
        let info = value(INFO_KEY).map_or(Ok(Self::default()), |info| {
            serde_json::from_str(info)
                .map_err(|error| Error::damaged(format!("{INFO_KEY}: {error}")))
        })?;
        let sums = value(SUMS_KEY).map_or(Ok(Vec::new()), |sums| {
            serde_json::from_str(sums)
                .map_err(|error| Error::damaged(format!("{SUMS_KEY}: {error}")))
        })?;
        Ok((info, sums))
    }
}
