//! Queries the server of a mount for `larder top`.

use larder::{CacheKind, HistogramReport, Stats};
use larder_fuse::{Result, find_mount, server_of};
use larder_observe::Mount;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The number of refreshes after which the histogram of one other cache is queried. The other caches take
/// turns.
const OTHER_CACHE_INTERVAL: u64 = 10;

/// The counts and the histogram of one refresh.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub at: Instant,
    /// The counts of all caches. The longest chains and the depths of trees come from the last histogram of
    /// each cache, which may be older than the other counts.
    pub stats: Stats,
    /// The histogram of the chosen cache.
    pub report: HistogramReport,
}

/// A client of a mount's server. It stores the last result of queries that are not made at every refresh.
#[derive(Debug)]
pub(super) struct Poller {
    mountpoint: PathBuf,
    queries: u64,
    /// The length of each cache's longest chain, from the last histogram of that cache.
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

    /// Finds the mount and connects to its server. Fails if the mount no longer exists.
    fn mount(&self) -> Result<Mount> {
        server_of(&find_mount(&self.mountpoint)?)
    }

    fn note(&mut self, report: &HistogramReport) {
        self.longest_chains
            .insert(report.cache, report.longest_walk());
    }
}
