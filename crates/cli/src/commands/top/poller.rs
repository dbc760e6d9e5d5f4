//! Queries the server of a mount for `larder top`.

use larder::{CacheKind, HistogramReport, Stats};
use larder_fuse::{Result, find_mount, server_of};
use larder_observe::Mount;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The number of refreshes after which the histogram of one cache is queried even if it is not visible. The caches take
/// turns.
const OTHER_CACHE_INTERVAL: u64 = 10;

/// The counts and the histogram of one refresh.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// When the counts were received.
    pub at: Instant,
    /// The counts of all caches. The longest chains and the depths of trees come from the last histogram of
    /// each cache, which may be older than the other counts.
    pub stats: Stats,
    /// The histogram of the chosen cache. If it is not visible, it may be older than the other counts.
    pub report: HistogramReport,
}

impl Sample {
    /// Returns whether both samples are of the same mount. After an unmount, another mount can have the same mount point.
    pub(super) fn is_of_mount_of(&self, other: &Self) -> bool {
        start_ns(&self.stats) == start_ns(&other.stats)
    }
}

/// Returns the start of the mount, or 0 if the server does not know it.
fn start_ns(stats: &Stats) -> u64 {
    stats
        .requests
        .as_ref()
        .map_or(0, |requests| requests.start_ns)
}

/// What the view needs from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The chosen cache.
    pub cache: CacheKind,
    /// Whether the histogram of the chosen cache is visible. If not, it is queried as rarely as those of the other
    /// caches.
    pub needs_chains: bool,
}

/// A client of a mount's server. It stores the last result of queries that are not made at every refresh.
#[derive(Debug)]
pub(super) struct Poller {
    mountpoint: PathBuf,
    /// The start of the mount that was queried last.
    start_ns: Option<u64>,
    queries: u64,
    /// The last histogram of each cache that was queried.
    reports: HashMap<CacheKind, HistogramReport>,
    /// The last known length of the longest chain of each cache.
    longest_chains: HashMap<CacheKind, u64>,
}

impl Poller {
    pub(super) fn new(mountpoint: &Path) -> Self {
        Self {
            mountpoint: mountpoint.to_owned(),
            start_ns: None,
            queries: 0,
            reports: HashMap::new(),
            longest_chains: HashMap::new(),
        }
    }

    /// Queries all counts and, if needed, the histogram of the chosen cache.
    pub(super) fn query(&mut self, wanted: Wanted) -> Result<Sample> {
        let mut stats = self.mount()?.counts()?;
        // The other queries take time, in which counts grow.
        let at = Instant::now();
        let start_ns = Some(start_ns(&stats));
        if self.start_ns != start_ns {
            self.start_ns = start_ns;
            self.reports.clear();
            let longest = self.mount()?.stats()?;
            let longest = longest
                .caches()
                .map(|(kind, cache)| (kind, cache.longest_chain));
            self.longest_chains = longest
                .into_iter()
                .filter_map(|(kind, longest)| Some((kind, longest?)))
                .collect();
        }
        let report = match self.reports.get(&wanted.cache) {
            Some(report) if !wanted.needs_chains => report.clone(),
            _ => self.query_chains(wanted.cache)?,
        };
        if self.queries % OTHER_CACHE_INTERVAL == OTHER_CACHE_INTERVAL - 1 {
            let turn = (self.queries / OTHER_CACHE_INTERVAL) as usize % CacheKind::ALL.len();
            self.query_chains(CacheKind::ALL[turn])?;
        }
        let caches = [
            &mut stats.page,
            &mut stats.buffer,
            &mut stats.dentry,
            &mut stats.inode,
        ];
        for (kind, cache) in CacheKind::ALL.into_iter().zip(caches) {
            cache.longest_chain = self.longest_chains.get(&kind).copied();
        }
        self.queries += 1;
        Ok(Sample { at, stats, report })
    }

    /// Queries the histogram of a cache.
    fn query_chains(&mut self, cache: CacheKind) -> Result<HistogramReport> {
        let report = self.mount()?.histogram(cache)?;
        self.longest_chains.insert(cache, report.longest_walk());
        self.reports.insert(cache, report.clone());
        Ok(report)
    }

    /// Finds the mount and connects to its server. Fails if the mount no longer exists.
    fn mount(&self) -> Result<Mount> {
        server_of(&find_mount(&self.mountpoint)?)
    }
}
