//! The measurements of xattr-bench, and statistics of them.

use super::commits::MeanCommits;
use super::{BenchConfig, Case, Commits, Run, engine};
use crate::run_report::as_f64;
use crate::statistics::{deviation, mean, median};
use larder::{AttributeStats, MbCacheVariant};
use serde::{Serialize, Serializer};

/// The measurements of a case. The JSON also contains the statistics that the methods compute, with the names
/// of the methods as keys.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The case.
    pub case: Case,
    /// Number of sets by each process.
    pub operations: u32,
    /// The variant of mbcache; `None` for a file system that is not Larder's.
    pub variant: Option<MbCacheVariant>,
    /// Duration of each run in seconds, from the start of all processes to the end of the last one.
    pub seconds: Vec<f64>,
    /// Statistics of the cache in the last run, for Larder's caches.
    pub stats: Option<AttributeStats>,
    /// The commits during each run; empty if the target has no journal, or does not report commits.
    pub commits: Vec<Commits>,
}

/// Measurements of several cases on one kind of target.
#[derive(Clone, Debug, Serialize)]
pub struct XattrBench {
    /// Name of the target.
    pub target: String,
    /// Parameters of the measurement.
    #[serde(flatten)]
    pub config: BenchConfig,
    /// The cases, each with its variants.
    pub measured: Vec<Measured>,
}

/// The memory for an entry of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EntrySize {
    /// The cache's variant.
    pub variant: MbCacheVariant,
    pub bytes: u64,
    /// The size of the entry and of its share of the buckets in a full cache, in bytes.
    pub bytes_with_buckets: f64,
    /// The size according to the letter, in longs of 8 bytes; `None` for variants that are only in
    /// Larder.
    pub published_longs: Option<u64>,
}

impl Measured {
    pub(super) fn new(case: Case, config: &BenchConfig, variant: Option<MbCacheVariant>) -> Self {
        Self {
            case,
            operations: config.operations,
            variant,
            seconds: Vec::new(),
            stats: None,
            commits: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, run: &Run) {
        self.seconds.push(run.elapsed.as_secs_f64());
        self.stats = run.stats;
        self.commits.extend(run.commits);
    }

    /// Returns the mean commits of a run; `None` if the target reports no commits.
    #[must_use]
    pub fn mean_commits(&self) -> Option<MeanCommits> {
        MeanCommits::of(&self.commits)
    }

    /// Returns the mean duration of the runs in seconds.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        mean(&self.seconds)
    }

    /// Returns the median duration of the runs in seconds, which a single slow run does not change.
    #[must_use]
    pub fn median_s(&self) -> f64 {
        median(&self.seconds)
    }

    /// Returns the sample standard deviation in seconds; 0 for a single run.
    #[must_use]
    pub fn deviation_s(&self) -> f64 {
        deviation(&self.seconds)
    }

    /// Returns the sets per second of all processes.
    #[must_use]
    pub fn sets_s(&self) -> f64 {
        let sets = u64::from(self.case.processes) * u64::from(self.operations);
        as_f64(sets) / self.mean_s()
    }
}

impl EntrySize {
    /// Returns the memory for an entry of `variant`; `None` if it has no entries.
    pub(crate) fn of(variant: MbCacheVariant) -> Option<Self> {
        // The memory of an empty cache is the memory of its buckets.
        let empty = engine::cache(variant, ()).ok()?.stats();
        (empty.limit_entries > 0).then(|| Self {
            variant,
            bytes: empty.entry_bytes,
            bytes_with_buckets: as_f64(empty.entry_bytes)
                + as_f64(empty.bytes) / as_f64(empty.limit_entries),
            published_longs: published_longs(variant),
        })
    }
}

/// Returns the size of an entry according to the letter: "Smaller cache entries (7 longs instead of 13)".
fn published_longs(variant: MbCacheVariant) -> Option<u64> {
    use MbCacheVariant as V;
    match variant {
        V::Old => Some(13),
        V::Lru | V::ListLru | V::Referenced => Some(7),
        V::Clock | V::Off => None,
    }
}

impl Serialize for Measured {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Figures<'m> {
            #[serde(flatten)]
            case: Case,
            variant: Option<MbCacheVariant>,
            mean_s: f64,
            deviation_s: f64,
            sets_s: f64,
            seconds: &'m [f64],
            stats: Option<AttributeStats>,
            #[serde(skip_serializing_if = "<[Commits]>::is_empty")]
            commits: &'m [Commits],
        }
        let figures = Figures {
            case: self.case,
            variant: self.variant,
            mean_s: self.mean_s(),
            deviation_s: self.deviation_s(),
            sets_s: self.sets_s(),
            seconds: &self.seconds,
            stats: self.stats,
            commits: &self.commits,
        };
        figures.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(seconds: &[f64]) -> Measured {
        Measured {
            case: Case {
                processes: 4,
                files: 10,
                values: 10,
            },
            operations: 100,
            variant: Some(MbCacheVariant::Off),
            seconds: seconds.to_vec(),
            stats: None,
            commits: Vec::new(),
        }
    }

    #[test]
    fn mean_and_deviation_of_runs() {
        let runs = measured(&[1.0, 2.0, 3.0]);
        let figures = (runs.mean_s(), runs.deviation_s(), runs.sets_s());
        assert_eq!(figures, (2.0, 1.0, 200.0));
        let one = measured(&[5.0]);
        assert_eq!((one.mean_s(), one.deviation_s()), (5.0, 0.0));
    }

    #[test]
    fn entry_size_includes_its_buckets_and_the_published_size() {
        assert_eq!(EntrySize::of(MbCacheVariant::Off), None);
        let size = EntrySize::of(MbCacheVariant::Lru).unwrap();
        let buckets = size.bytes_with_buckets - as_f64(size.bytes);
        assert!(0.0 < buckets && buckets < 8.0, "{size:?}");
        assert_eq!(size.published_longs, Some(7));
    }
}
