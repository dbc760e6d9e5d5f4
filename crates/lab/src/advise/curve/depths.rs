//! Counts of stack distances.

use super::stack::Reference;

/// Number of groups into which the objects of a sample are divided, to estimate the error of the sample.
pub(super) const GROUPS: usize = 16;

/// The log2 of the number of buckets for each power of two of the distance.
const STEP_BITS: u32 = 6;

/// Number of buckets: enough for distances below 2^48.
const BUCKETS: usize = ((48 - STEP_BITS as usize) + 1) << STEP_BITS;

/// The distances of all lookups of a cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Depths {
    /// Number of all lookups, also of those that are not in the sample.
    pub(super) lookups: u64,
    /// Element *d* is the number of lookups with the distance *d*, while all objects were tracked.
    pub(super) exact: Vec<u64>,
    /// Number of lookups that missed in all caches, while all objects were tracked.
    pub(super) cold: u64,
    /// The later lookups, for which only a sample of the objects was tracked.
    pub(super) sampled: Option<Box<SampledDepths>>,
}

/// The distances of lookups of a sample. Each bucket has a count for each group of objects.
#[derive(Clone, Debug)]
pub(super) struct SampledDepths {
    pub(super) buckets: Vec<[u64; GROUPS]>,
    pub(super) cold: [u64; GROUPS],
    /// The log2 of the number of objects that an object of the sample represents, at the end.
    pub(super) shift: u32,
}

impl Depths {
    /// Counts a lookup of the object `id`. `reference` is `None` if the object is not in the sample.
    #[inline]
    pub(crate) fn add(&mut self, id: u64, reference: Option<Reference>) {
        self.lookups += 1;
        match reference {
            Some(Reference { depth, shift: 0 }) => self.add_exact(depth),
            Some(reference) => self.add_sampled(id, reference),
            None => {}
        }
    }

    #[inline]
    fn add_exact(&mut self, depth: Option<u64>) {
        let Some(depth) = depth.and_then(|depth| usize::try_from(depth).ok()) else {
            self.cold += 1;
            return;
        };
        if self.exact.len() <= depth {
            self.exact.resize((depth + 1).next_power_of_two(), 0);
        }
        self.exact[depth] += 1;
    }

    fn add_sampled(&mut self, id: u64, reference: Reference) {
        let sampled = self.sampled.get_or_insert_with(|| {
            Box::new(SampledDepths {
                buckets: vec![[0; GROUPS]; BUCKETS],
                cold: [0; GROUPS],
                shift: 0,
            })
        });
        sampled.shift = sampled.shift.max(reference.shift);
        // The sample is selected by the first bits of the hash, so the last bits are independent of it.
        let group = usize::from(id.to_le_bytes()[0]) % GROUPS;
        let groups = match reference.depth {
            Some(depth) => &mut sampled.buckets[bucket(depth)],
            None => &mut sampled.cold,
        };
        groups[group] += 1 << reference.shift;
    }
}

/// Returns the bucket of a distance.
pub(crate) fn bucket(depth: u64) -> usize {
    let shift = (depth | 1 << STEP_BITS).ilog2() - STEP_BITS;
    let bucket = (u64::from(shift) << STEP_BITS) + (depth >> shift);
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// Returns the smallest distance in a bucket.
pub(crate) fn lowest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> STEP_BITS).saturating_sub(1);
    (bucket - (shift << STEP_BITS)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_contains_its_lowest_distance_and_those_up_to_the_next() {
        for at in 1..BUCKETS - 1 {
            assert_eq!(bucket(lowest(at)), at);
            assert_eq!(bucket(lowest(at + 1) - 1), at);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket(1), 1);
    }
}
