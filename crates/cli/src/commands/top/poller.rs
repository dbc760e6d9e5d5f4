//! Queries to the server of a mount.

use larder::{CacheKind, HistogramReport, Stats};
use larder_fuse::{Result, find_mount};
use larder_observe::Mount;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The number of refreshes after which the histogram of another cache is queried as well.
const OTHER_CACHE_INTERVAL: u64 = 10;

/// A reply of the server, and its time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub at: Instant,
    /// The counts of all caches. Longest chains and depths of trees are always known; those of caches
    /// that were not queried in this refresh are older.
    pub stats: Stats,
    /// The histogram of the chosen cache.
    pub report: HistogramReport,
}

/// Queries the server repeatedly, and keeps the values that it does not query each time.
#[derive(Debug)]
pub(super) struct Poller {
    mountpoint: PathBuf,
    queries: u64,
    /// The longest chain of each cache.
    longest_chains: HashMap<CacheKind, u64>,
}

impl Poller {
    pub(super) fn new(mountpoint: &Path) -> Self {
        Self {
            mountpoint: mountpoint.to_owned(),
            queries: 0,
            longest_chains: HashMap::new(),
        }
    }

    /// Queries all counts and the histogram of the chosen cache.
    pub(super) fn query(&mut self, chosen: CacheKind) -> Result<Sample> {
        let mut stats = if self.queries == 0 {
            self.mount()?.stats()?
        } else {
            self.mount()?.counts()?
        };
        let report = self.mount()?.histogram(chosen)?;
        self.note(&report);
        let others = CacheKind::ALL.into_iter().filter(|kind| *kind != chosen);
        if self.queries % OTHER_CACHE_INTERVAL == OTHER_CACHE_INTERVAL - 1
            && let Some(other) = others
                .cycle()
                .nth((self.queries / OTHER_CACHE_INTERVAL) as usize % 3)
        {
            self.note(&self.mount()?.histogram(other)?);
        }
        let caches = [
            &mut stats.page,
            &mut stats.buffer,
            &mut stats.dentry,
            &mut stats.inode,
        ];
        for (kind, cache) in CacheKind::ALL.into_iter().zip(caches) {
            if let Some(longest) = cache.longest_chain {
                self.longest_chains.insert(kind, longest);
            }
            cache.longest_chain = self.longest_chains.get(&kind).copied();
        }
        self.queries += 1;
        Ok(Sample {
            at: Instant::now(),
            stats,
            report,
        })
    }

    /// Returns the mount, if it still exists.
    fn mount(&self) -> Result<Mount> {
        find_mount(&self.mountpoint)?.server()
    }

    fn note(&mut self, report: &HistogramReport) {
        self.longest_chains
            .insert(report.cache, report.longest_walk());
    }
}
