//! A layout for tests: numbers as keys and values.

use super::{Layout, Slot};

/// The key is the first word, the value the second.
#[derive(Debug)]
pub(super) struct Number;

impl Layout<2> for Number {
    type Key<'k> = u64;
    type Hashed = u64;

    fn hashed(key: &u64) -> u64 {
        *key
    }

    fn hashed_in(slot: &Slot<2>) -> u64 {
        slot.word(0)
    }

    fn matches(key: &u64, slot: &Slot<2>) -> bool {
        slot.word(0) == *key
    }

    fn store(key: &u64, slot: &Slot<2>) {
        slot.set_word(0, *key);
    }
}
