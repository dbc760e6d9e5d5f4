//! The stack distances of one segment of a trace, for the intervals of savings.

use super::curve::Reference;
use super::curve::{bucket, lowest};
use crate::run_report::{as_f64, ratio};
use larder_cache::tape::CacheKind;

/// The distances of the lookups of a segment. Each bucket contains distances that differ by less than 2%.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    /// For each cache, the number of lookups in each bucket. The distances of pages and buffers are those in the memory
    /// that they share.
    buckets: [Vec<u64>; 4],
    /// For each cache, the lookups that miss in all sizes.
    cold: [u64; 4],
}

impl Segment {
    #[inline]
    pub(super) fn add(&mut self, cache: CacheKind, reference: Reference) {
        let weight = 1 << reference.shift;
        let Some(depth) = reference.depth else {
            self.cold[cache as usize] += weight;
            return;
        };
        let buckets = &mut self.buckets[cache as usize];
        let at = bucket(depth);
        if buckets.len() <= at {
            buckets.resize(at + 1, 0);
        }
        buckets[at] += weight;
    }

    /// Returns the number of lookups of `cache`.
    pub(super) fn lookups(&self, cache: CacheKind) -> f64 {
        let cache = cache as usize;
        as_f64(self.buckets[cache].iter().sum::<u64>() + self.cold[cache])
    }

    /// Returns the number of lookups of `cache` that miss if its memory has `size` objects.
    pub(super) fn misses(&self, cache: CacheKind, size: u64) -> f64 {
        let cache = cache as usize;
        let buckets = &self.buckets[cache];
        let distance = size.saturating_add(1);
        let at = bucket(distance);
        let farther: u64 = buckets.iter().skip(at + 1).sum();
        let whole = as_f64(farther + self.cold[cache]);
        let within = buckets.get(at).copied().unwrap_or(0);
        let (from, to) = (lowest(at), lowest(at + 1));
        let part = ratio(as_f64(to.saturating_sub(distance)), as_f64(to - from));
        whole + part * as_f64(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_the_lookups_with_larger_distances() {
        let mut segment = Segment::default();
        for depth in [Some(1), Some(5), Some(5), Some(40), None] {
            segment.add(CacheKind::Inode, Reference { depth, shift: 1 });
        }
        for (size, misses) in [
            (0, 10.0),
            (1, 8.0),
            (4, 8.0),
            (5, 4.0),
            (39, 4.0),
            (40, 2.0),
            (1 << 40, 2.0),
        ] {
            let found = segment.misses(CacheKind::Inode, size);
            assert!((found - misses).abs() < 1e-9, "{size}: {found}");
        }
        assert!((segment.lookups(CacheKind::Inode) - 10.0).abs() < 1e-9);
        assert!(segment.misses(CacheKind::Page, 3).abs() < 1e-9);
    }
}
