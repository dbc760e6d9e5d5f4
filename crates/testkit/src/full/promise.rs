//! The parts of a file that have blocks, so that a write to them needs no more space.

use std::collections::BTreeSet;
use std::ops::Range;

/// The unit of the set: no block is smaller.
const UNIT_BYTES: u64 = 1024;

/// The units of a file that have blocks for certain.
#[derive(Clone, Debug, Default)]
pub(super) struct Promise {
    units: BTreeSet<u64>,
}

fn units(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / UNIT_BYTES..bytes.end.div_ceil(UNIT_BYTES)
}

impl Promise {
    /// Records that the range was written or allocated. There is no promise before `first_bytes`.
    pub(super) fn add(&mut self, bytes: &Range<u64>, first_bytes: u64) {
        if !bytes.is_empty() {
            let first = first_bytes.div_ceil(UNIT_BYTES);
            self.units
                .extend(units(bytes).filter(|unit| *unit >= first));
        }
    }

    /// Records that the range may have lost blocks.
    pub(super) fn remove(&mut self, bytes: &Range<u64>) {
        let removed = units(bytes);
        self.units.retain(|unit| !removed.contains(unit));
    }

    /// Returns whether the whole range has blocks.
    pub(super) fn covers(&self, bytes: &Range<u64>) -> bool {
        units(bytes).all(|unit| self.units.contains(&unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_covers_touched_units_until_any_part_is_removed() {
        let mut promise = Promise::default();
        promise.add(&(1000..3000), 0);
        assert!(promise.covers(&(0..3072)));
        assert!(!promise.covers(&(0..3073)));
        promise.remove(&(2000..2001));
        assert!(promise.covers(&(2048..3072)) && !promise.covers(&(1024..2048)));
        promise.add(&(0..10), 1);
        assert!(!Promise::default().covers(&(0..1)));
    }

    #[test]
    fn promise_excludes_bytes_before_the_first() {
        let mut promise = Promise::default();
        promise.add(&(0..4096), 1024);
        assert!(!promise.covers(&(0..1)));
        assert!(promise.covers(&(1024..4096)));
    }
}
