//! The share of one kernel in a round, as it is measured and stored.

use larder_cache::table::Counts;
use larder_cache::table::histogram::Report;
use serde::{Deserialize, Serialize};

/// The share of one kernel in a round: the sum of its passes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KernelRun {
    /// Number of scripts of all passes.
    pub scripts: u64,
    pub elapsed_s: f64,
    /// Processor time of the whole process, in seconds.
    pub processor_s: f64,
    pub device_reads: u64,
    pub caches: Vec<CacheRun>,
}

/// One cache in a kernel's share of a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CacheRun {
    pub counts: Counts,
    /// The chains in the last pass of the last planned round; `None` in other rounds.
    pub chains: Option<Chains>,
}

/// The chains of a cache's table in one pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Chains {
    /// When the last user was done.
    pub full: Report,
    /// After the homes were removed and, in Table 3, most buffers were displaced.
    pub after: Report,
}

impl KernelRun {
    /// Adds a later pass.
    pub(super) fn add(&mut self, pass: Self) {
        self.scripts += pass.scripts;
        self.elapsed_s += pass.elapsed_s;
        self.processor_s += pass.processor_s;
        self.device_reads += pass.device_reads;
        for (sum, cache) in self.caches.iter_mut().zip(pass.caches) {
            *sum = CacheRun {
                counts: sum.counts + cache.counts,
                ..cache
            };
        }
    }
}
