//! Counts the events of a trace.

use super::{Error, TraceReader};
use crate::output::{Table, text_or};
use larder_cache::tape::{CacheKind, Operation};
use larder_trace::{Batch, TraceInfo};
use serde::Serialize;
use std::collections::BTreeMap;

/// The events of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheEvents {
    /// Number of lookups.
    pub lookups: u64,
    /// Number of lookups that hit.
    pub hits: u64,
    /// Number of insertions.
    pub inserts: u64,
    /// Number of removals whose reason is a change of the object, or unknown.
    pub removals: u64,
    /// Number of evictions.
    pub evictions: u64,
}

/// The reads of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileEvents {
    /// Number of reads and page faults.
    pub reads: u64,
    /// Number of bytes that they read.
    pub read_bytes: u64,
    /// Number of paths of files.
    pub paths: u64,
}

/// The content of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceSummary {
    /// The metadata of the recording.
    pub info: TraceInfo,
    /// The reason why the end of the trace is missing; `None` if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortened: Option<String>,
    /// Whether the trace was being recorded when it was opened.
    pub is_being_recorded: bool,
    /// Whether all row groups have checksums, so that damage is detected.
    pub is_summed: bool,
    /// Number of row groups.
    pub row_groups: usize,
    /// Number of events, including reads and paths of files.
    pub events: u64,
    /// Time of the earliest event.
    pub first_ns: u64,
    /// Time of the latest event.
    pub last_ns: u64,
    /// The caches that have events.
    pub caches: BTreeMap<CacheKind, CacheEvents>,
    /// The reads of files.
    pub files: FileEvents,
}

impl FileEvents {
    fn add(&mut self, batch: &Batch) {
        for read in batch.reads() {
            self.reads += 1;
            self.read_bytes += u64::from(read.len_bytes);
        }
        self.paths += batch.paths().count() as u64;
    }
}

impl TraceSummary {
    /// Counts all events of `reader`.
    ///
    /// # Errors
    /// Returns the errors of [`TraceReader::read`].
    pub fn of(reader: &mut TraceReader) -> Result<Self, Error> {
        let (is_summed, row_groups) = (reader.is_summed(), reader.row_groups());
        let (mut events, mut first_ns, mut last_ns) = (0, u64::MAX, 0);
        let mut files = FileEvents::default();
        let mut caches = BTreeMap::<CacheKind, CacheEvents>::new();
        let mut batch = Batch::default();
        while reader.read(&mut batch)? {
            events += batch.len() as u64;
            let times = || batch.time.iter().map(|time| time.cast_unsigned());
            first_ns = times().fold(first_ns, u64::min);
            last_ns = times().fold(last_ns, u64::max);
            files.add(&batch);
            for event in batch.events() {
                let of_cache = caches.entry(event.cache).or_default();
                match event.operation {
                    Operation::Lookup { hit } => {
                        of_cache.lookups += 1;
                        of_cache.hits += u64::from(hit);
                    }
                    Operation::Insert => of_cache.inserts += 1,
                    Operation::Remove => of_cache.removals += 1,
                    Operation::Evict => of_cache.evictions += 1,
                }
            }
        }
        Ok(Self {
            info: reader.info().clone(),
            shortened: reader.shortened().map(str::to_owned),
            is_being_recorded: reader.is_being_recorded(),
            is_summed,
            row_groups,
            events,
            first_ns: first_ns.min(last_ns),
            last_ns,
            caches,
            files,
        })
    }

    /// Returns a table with one row for each cache that has events.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(
            "cache | lookups: | hits: | inserts: | removals: | evictions: | recorded table",
        );
        for (cache, of) in &self.caches {
            let recorded = self.info.tables.get(cache);
            table.push([
                cache.as_str().to_owned(),
                of.lookups.to_string(),
                of.hits.to_string(),
                of.inserts.to_string(),
                of.removals.to_string(),
                of.evictions.to_string(),
                text_or(
                    recorded.map(|table| format!("{}/{}", table.function, table.bits)),
                    "-",
                ),
            ]);
        }
        table
    }
}
