//! The questions to the server of a mount.

use larder::{CacheKind, HistogramReport, Stats};
use larder_fuse::{Result, find_mount};
use larder_observe::Mount;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Every how many times one of the caches that are not chosen is looked at too.
const SELDOM: u64 = 10;

/// What a server said, and when.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub at: Instant,
    /// All longest chains, and depths of trees, are known; those of caches that were not asked for are as of a while ago.
    pub stats: Stats,
    /// Of the chosen cache.
    pub report: HistogramReport,
}

/// Asks again and again, and remembers what it does not ask each time.
#[derive(Debug)]
pub(super) struct Asker {
    mountpoint: PathBuf,
    asked: u64,
    /// The longest chain of each cache.
    longest_chains: HashMap<CacheKind, u64>,
}

impl Asker {
    pub(super) fn new(mountpoint: &Path) -> Self {
        Self {
            mountpoint: mountpoint.to_owned(),
            asked: 0,
            longest_chains: HashMap::new(),
        }
    }

    /// Asks for all counts and for the histogram of the chosen cache.
    pub(super) fn ask(&mut self, chosen: CacheKind) -> Result<Sample> {
        let mut stats = if self.asked == 0 {
            self.mount()?.stats()?
        } else {
            self.mount()?.counts()?
        };
        let report = self.mount()?.histogram(chosen)?;
        self.note(&report);
        let others = CacheKind::ALL.into_iter().filter(|kind| *kind != chosen);
        if self.asked % SELDOM == SELDOM - 1
            && let Some(other) = others.cycle().nth((self.asked / SELDOM) as usize % 3)
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
        self.asked += 1;
        Ok(Sample {
            at: Instant::now(),
            stats,
            report,
        })
    }

    /// The mount, if it is still there.
    fn mount(&self) -> Result<Mount> {
        find_mount(&self.mountpoint)?.server()
    }

    fn note(&mut self, report: &HistogramReport) {
        self.longest_chains
            .insert(report.cache, report.longest_walk());
    }
}
