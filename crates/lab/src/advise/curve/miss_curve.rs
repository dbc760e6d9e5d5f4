//! The number of misses in a cache of each size.

use super::depths::{Depths, GROUPS, lowest};
use crate::run_report::{as_f64, ratio};

/// The error of a sample is stated as this number of standard errors.
const STATED_ERRORS: f64 = 3.0;

/// A cache at the knee of a curve has at most this share of the misses that a cache of any size can avoid.
const KNEE_SHARE: f64 = 0.05;

/// A miss-ratio curve of LRU caches: the misses in a cache of each size.
#[derive(Clone, Debug)]
pub struct MissCurve {
    lookups: u64,
    /// Element *n* is the number of lookups that hit in a cache of *n* objects, while all objects were tracked.
    exact_hits: Vec<u64>,
    /// Number of lookups that missed in all caches, while all objects were tracked.
    exact_cold: u64,
    sampled: Option<SampledMisses>,
}

/// The misses of a sample, scaled to all objects.
#[derive(Clone, Debug)]
struct SampledMisses {
    /// Element *b* contains, for each group of objects, the number of misses in a cache that is smaller than all
    /// distances in bucket *b*.
    misses: Vec<[f64; GROUPS]>,
    shift: u32,
}

impl MissCurve {
    pub(in crate::advise) fn new(depths: &Depths) -> Self {
        let mut hits = 0;
        let cumulative = depths.exact.iter().map(|count| {
            hits += count;
            hits
        });
        Self {
            lookups: depths.lookups,
            exact_hits: cumulative.collect(),
            exact_cold: depths.cold,
            sampled: depths.sampled.as_ref().map(|sampled| {
                let mut sum = sampled.cold.map(as_f64);
                let mut misses: Vec<_> = sampled
                    .buckets
                    .iter()
                    .rev()
                    .map(|groups| {
                        for (sum, count) in sum.iter_mut().zip(groups) {
                            *sum += as_f64(*count);
                        }
                        sum
                    })
                    .collect();
                misses.reverse();
                let shift = sampled.shift;
                SampledMisses { misses, shift }
            }),
        }
    }

    /// Returns the number of lookups.
    #[must_use]
    pub fn lookups(&self) -> u64 {
        self.lookups
    }

    /// Returns whether the curve is exact: all objects were tracked.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.sampled.is_none()
    }

    /// Returns the share of objects in the sample at the end of the trace; 1 if the curve is exact.
    #[must_use]
    pub fn sampled_share(&self) -> f64 {
        let shift = self.sampled.as_ref().map_or(0, |sampled| sampled.shift);
        0.5_f64.powi(i32::try_from(shift).unwrap_or(i32::MAX))
    }

    /// Returns the number of misses in a cache of `size` objects.
    #[must_use]
    pub fn misses(&self, size: u64) -> f64 {
        let sampled = self.sampled.as_ref();
        self.exact_misses(size) + sampled.map_or(0.0, |sampled| sampled.at(size).iter().sum())
    }

    fn exact_misses(&self, size: u64) -> f64 {
        let last = self.exact_hits.len().saturating_sub(1);
        let at = usize::try_from(size).unwrap_or(last).min(last);
        let hits = self.exact_hits.get(at).copied().unwrap_or(0);
        let all = self.exact_hits.last().copied().unwrap_or(0);
        as_f64(all - hits + self.exact_cold)
    }

    /// Returns the miss ratio in a cache of `size` objects, from 0 to 1.
    #[must_use]
    pub fn ratio(&self, size: u64) -> f64 {
        ratio(self.misses(size), as_f64(self.lookups)).min(1.0)
    }

    /// Returns the range of misses that contains the exact number, with three standard errors on each side. For
    /// an exact curve, both ends are the exact number.
    ///
    /// There are two errors. First, the sample may have too many or too few of the misses. The deviation of the groups
    /// of objects shows how much. Second, the sample may have too many or too few of the objects between two uses.
    /// Then the misses are those of a smaller or larger cache. How much smaller or larger follows from the number of
    /// sampled objects, which is distributed binomially.
    #[must_use]
    pub fn range(&self, size: u64) -> [f64; 2] {
        let Some(sampled) = &self.sampled else {
            return [self.misses(size); 2];
        };
        let share = self.sampled_share();
        let objects = as_f64(size.max(1));
        let shift = STATED_ERRORS * (objects * (1.0 - share) / share).sqrt() + 1.0 / share;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative"
        )]
        let shift = shift as u64;
        let (smaller, larger) = (size.saturating_sub(shift), size.saturating_add(shift));
        let [few, many] = [larger, smaller].map(|size| (self.misses(size), sampled.error(size)));
        let lookups = as_f64(self.lookups);
        [
            (few.0 - STATED_ERRORS * few.1).max(0.0),
            (many.0 + STATED_ERRORS * many.1).min(lookups),
        ]
    }

    /// Returns the smallest size at which no larger cache has fewer misses.
    #[must_use]
    pub fn largest_useful_size(&self) -> u64 {
        let floor = self.misses(u64::MAX) + 0.5;
        self.smallest_size(floor)
    }

    /// Returns the knee: the smallest cache that avoids at least 95% of the misses that a cache of any size can avoid.
    #[must_use]
    pub fn knee(&self) -> u64 {
        let floor = self.misses(u64::MAX);
        let avoidable = (as_f64(self.lookups) - floor).max(0.0);
        self.smallest_size(floor + KNEE_SHARE * avoidable)
    }

    /// Returns the smallest cache that has at most `misses`.
    fn smallest_size(&self, misses: f64) -> u64 {
        let (mut low, mut high) = (0, 1 << 48);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.misses(middle) <= misses {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

impl SampledMisses {
    /// Returns the misses of each group in a cache of `size` objects. It assumes that the distances in a bucket are
    /// distributed evenly.
    fn at(&self, size: u64) -> [f64; GROUPS] {
        let last = self.misses.len() - 1;
        // A lookup misses if its distance is at least `size` + 1.
        let distance = size.saturating_add(1);
        let at = super::depths::bucket(distance);
        if at >= last {
            return self.misses[last];
        }
        let (from, to) = (lowest(at), lowest(at + 1));
        let part = ratio(as_f64(distance - from), as_f64(to - from));
        let mut misses = self.misses[at];
        for (miss, next) in misses.iter_mut().zip(&self.misses[at + 1]) {
            *miss += part * (next - *miss);
        }
        misses
    }

    /// Returns the standard error of the misses in a cache of `size` objects.
    fn error(&self, size: u64) -> f64 {
        let groups = self.at(size);
        let count = as_f64(GROUPS as u64);
        let mean = groups.iter().sum::<f64>() / count;
        let squares: f64 = groups.iter().map(|group| (group - mean).powi(2)).sum();
        (squares * count / (count - 1.0)).sqrt()
    }
}
