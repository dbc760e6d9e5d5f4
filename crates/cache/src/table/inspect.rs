//! Inspection of a table, for measurements and tests.

use super::link::Link;
use super::{HashFunction, Histogram, Layout, Slot, State, Table};

impl<L: Layout<W>, H: HashFunction<L::HashInput>, const W: usize> Table<L, H, W> {
    /// Returns the chain lengths of all buckets.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::default();
        for bucket in 0..self.buckets.count() {
            if self.buckets.first(bucket) == self.buckets.end(bucket) {
                histogram.add(0);
                continue;
            }
            let locked = self.buckets.lock(bucket);
            let length = self.arena.chain(locked.first()).count();
            drop(locked);
            histogram.add(length as u64);
        }
        histogram
    }

    /// Calls `visit` with each entry. Briefly locks each bucket that is in use. `visit` must be quick, and must not use the
    /// table.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Slot<W>)) {
        for bucket in 0..self.buckets.count() {
            if self.buckets.first(bucket) == self.buckets.end(bucket) {
                continue;
            }
            let locked = self.buckets.lock(bucket);
            for index in self.arena.chain(locked.first()) {
                visit(self.arena.slot(index));
            }
        }
    }

    /// Checks the invariants. No other thread may use the table meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self, same_key: impl Fn(&Slot<W>, &Slot<W>) -> bool) {
        let mut objects = 0;
        for bucket in 0..self.buckets.count() {
            let mut chain: Vec<&Slot<W>> = Vec::new();
            let mut at = self.buckets.first(bucket);
            while let Link::Slot(index) = at {
                let slot = self.arena.slot(index);
                assert!(slot.state().has(State::LIVE), "slot {index} is not live");
                assert_eq!(
                    self.bucket(L::hash_input_in(slot)),
                    bucket,
                    "bucket of slot {index}"
                );
                assert!(
                    !chain.iter().any(|other| same_key(slot, other)),
                    "the key of slot {index} is in the table twice"
                );
                chain.push(slot);
                at = slot.next();
            }
            assert_eq!(
                at,
                self.buckets.end(bucket),
                "end of the chain of bucket {bucket}"
            );
            objects += chain.len() as u64;
        }
        assert_eq!(objects, self.objects(), "number of objects");
    }
}
