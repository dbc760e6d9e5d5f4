//! Recommends the memory of a mount: predicts the time of all misses for each size.

use super::costs::Costs;
use super::current::Current;
use super::pass::{Observation, PoolCurve};
use super::population::Capacity;
use super::readahead::size;
use super::recommendation::{Change, MIN_SHARE, is_worth_it};
use crate::run_report::as_f64;
use crate::statistics::{Interval, percentile_range};
use crate::workload::chance::generator;
use larder_cache::tape::CacheKind;
use serde::Serialize;

/// The smallest and the largest memory that are considered.
const MIN_BYTES: u64 = 4 << 20;
const MAX_BYTES: u64 = 1 << 42;

/// Minimum number of segments that contribute to a saving. With fewer, the interval of the saving is unknown.
const MIN_SEGMENTS: usize = 8;

/// A size is sufficient if the best size saves at most this share of the recording in addition.
const SUFFICIENT_SHARE: f64 = MIN_SHARE / 2.0;

/// The predicted time of all misses with one size of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryTime {
    /// The memory: `cache_size`.
    pub cache_size_bytes: u64,
    /// Time of the misses, in nanoseconds over the whole recording.
    pub miss_ns: f64,
}

/// The predicted times of all sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryTimes {
    /// The current memory.
    pub current: MemoryTime,
    /// All sizes, in ascending order. The current one is among them.
    pub sizes: Vec<MemoryTime>,
    /// The smallest sufficient size: the best size saves at most 0.5% of the recording in addition.
    pub sufficient_bytes: u64,
}

impl Observation {
    /// Returns the number of misses of `cache` in a mount with `capacity`.
    pub(super) fn misses(&self, cache: CacheKind, capacity: Capacity) -> f64 {
        self.pools[cache as usize].misses(objects_of(cache, capacity))
    }

    /// Returns the capacity of a mount with `cache_size_bytes` that runs the recorded workload.
    pub(super) fn capacity(&self, cache_size_bytes: u64) -> Capacity {
        let objects = |cache: CacheKind| self.curves[cache as usize].largest_useful_size();
        Capacity::of(
            cache_size_bytes,
            objects(CacheKind::Dentry),
            objects(CacheKind::Inode),
        )
    }

    fn buffer_lookups(&self) -> f64 {
        as_f64(self.counts[CacheKind::Buffer as usize].lookups)
    }

    /// Returns the predicted time of all misses.
    fn miss_ns(&self, costs: &Costs, capacity: Capacity) -> f64 {
        let misses = |capacity| CacheKind::ALL.map(|cache| self.misses(cache, capacity));
        let recorded = misses(self.recorded_capacity());
        costs.time_ns(misses(capacity), recorded, self.buffer_lookups())
    }

    /// Returns the capacity of the recorded mount.
    fn recorded_capacity(&self) -> Capacity {
        self.capacity(self.recorded_bytes)
    }

    /// Returns the time of the misses of LRU caches in each segment of the trace.
    fn segments_ns(&self, costs: &Costs, capacity: Capacity) -> Vec<f64> {
        let recorded_capacity = self.recorded_capacity();
        let of_segment = |segment: &super::segment::Segment| {
            let misses = |capacity| {
                CacheKind::ALL.map(|cache| segment.misses(cache, objects_of(cache, capacity)))
            };
            let recorded = misses(recorded_capacity);
            costs.time_ns(
                misses(capacity),
                recorded,
                segment.lookups(CacheKind::Buffer),
            )
        };
        self.segments.iter().map(of_segment).collect()
    }

    /// Returns the largest deviation that the sampling of the curves can cause in the predicted time.
    fn curve_error_ns(&self, costs: &Costs, capacity: Capacity) -> f64 {
        let deviation = CacheKind::ALL.map(|cache| {
            let PoolCurve { lru, .. } = &self.pools[cache as usize];
            let [low, high] = lru.range(objects_of(cache, capacity));
            (high - low) / 2.0
        });
        costs.time_ns(deviation, [0.0; 4], self.buffer_lookups())
    }
}

/// Returns the number of objects in the memory that `cache` uses.
pub(super) fn objects_of(cache: CacheKind, capacity: Capacity) -> u64 {
    match cache {
        CacheKind::Page | CacheKind::Buffer => capacity.frames,
        CacheKind::Dentry => capacity.dentries,
        CacheKind::Inode => capacity.inodes,
    }
}

/// Predicts the time for all sizes, up to `limit_bytes` if there is a limit.
pub(super) fn predict(
    observation: &Observation,
    costs: &Costs,
    current: &Current,
    limit_bytes: Option<u64>,
) -> MemoryTimes {
    let at = |cache_size_bytes: u64| MemoryTime {
        cache_size_bytes,
        miss_ns: observation.miss_ns(costs, observation.capacity(cache_size_bytes)),
    };
    let limit = limit_bytes.unwrap_or(MAX_BYTES);
    let mut bytes: Vec<u64> = (MIN_BYTES.ilog2()..MAX_BYTES.ilog2())
        .flat_map(|bits| [1 << bits, 3 << (bits - 1)])
        .filter(|bytes| *bytes <= limit)
        .collect();
    bytes.extend([
        current.cache_size_bytes,
        limit_bytes.unwrap_or(current.cache_size_bytes),
    ]);
    bytes.sort_unstable();
    bytes.dedup();
    let mut sizes: Vec<MemoryTime> = bytes.into_iter().map(at).collect();
    // The sufficient size is the smallest one that is nearly as good as the best.
    let is_allowed = |one: &MemoryTime| one.cache_size_bytes <= limit;
    let least = sizes
        .iter()
        .filter(|one| is_allowed(one))
        .map(|one| one.miss_ns);
    let least = least.fold(f64::INFINITY, f64::min);
    let enough = least + SUFFICIENT_SHARE * as_f64(observation.recording_ns);
    let sufficient = sizes
        .iter()
        .find(|one| one.miss_ns <= enough && is_allowed(one));
    let sufficient_bytes = sufficient.map_or(current.cache_size_bytes, |one| one.cache_size_bytes);
    let shown = (4 * sufficient_bytes).max(2 * current.cache_size_bytes);
    sizes.retain(|one| one.cache_size_bytes <= shown);
    MemoryTimes {
        current: at(current.cache_size_bytes),
        sizes,
        sufficient_bytes,
    }
}

impl MemoryTimes {
    /// Returns the saving of `sufficient_bytes`, compared with the current memory.
    fn saved_ns(&self, observation: &Observation, costs: &Costs, seed: u64) -> Interval {
        let [before, after] = [self.current.cache_size_bytes, self.sufficient_bytes]
            .map(|bytes| observation.capacity(bytes));
        let value = observation.miss_ns(costs, before) - observation.miss_ns(costs, after);
        let pairs = observation
            .segments_ns(costs, before)
            .into_iter()
            .zip(observation.segments_ns(costs, after));
        let saved: Vec<f64> = pairs.map(|(before, after)| before - after).collect();
        let contributing = saved.iter().filter(|saved| saved.abs() > 0.0).count();
        if contributing < MIN_SEGMENTS {
            return Interval::unknown(value);
        }
        let sum = |segments: &[f64]| segments.iter().sum::<f64>();
        let Some(range) = percentile_range(&saved, &mut generator(seed, 7), sum) else {
            return Interval::unknown(value);
        };
        // The segments contain the misses of LRU, so they show only how the saving varies. Its amount is `value`, which
        // contains the misses of the clock.
        let error = [before, after].map(|capacity| observation.curve_error_ns(costs, capacity));
        let error = error.iter().map(|error| error.powi(2)).sum::<f64>().sqrt();
        let [low, high] = range.map(|end| value + end - sum(&saved));
        Interval::new(value, [low - error, high + error])
    }

    /// Recommends a size, if it saves enough.
    pub(super) fn advise(
        &self,
        observation: &Observation,
        costs: &Costs,
        limit_bytes: Option<u64>,
        seed: u64,
    ) -> Change {
        let recording_ns = observation.recording_ns;
        let now = self.current.cache_size_bytes;
        let is_over_limit = limit_bytes.is_some_and(|limit| now > limit);
        let saved_ns = self.saved_ns(observation, costs, seed);
        let grows = self.sufficient_bytes > now;
        let is_recommended = is_over_limit || grows && is_worth_it(saved_ns, recording_ns);
        let (sufficient, shown) = (size(self.sufficient_bytes), size(now));
        let reason = if is_over_limit {
            format!("the current {shown} exceed --memory; {sufficient} suffice within this limit")
        } else if is_recommended {
            "a larger size would save less than another 0.5% of the recording".to_owned()
        } else if grows {
            format!(
                "{sufficient} instead of {shown} saves less than 1% of the recording, or less than the noise"
            )
        } else if self.sufficient_bytes < now {
            format!("{shown} are enough; {sufficient} would suffice for this recording")
        } else {
            format!("{shown} are enough for this recording")
        };
        let options = is_recommended.then(|| format!("cache_size={sufficient}"));
        Change {
            part: "memory",
            options: options.into_iter().collect(),
            saved_ns: Some(if grows || is_over_limit {
                saved_ns
            } else {
                Interval::exact(0.0)
            }),
            reason,
        }
    }
}
