//! A layout for tests, whose keys and values are numbers.

use super::{Layout, Slot};

/// The layout of a number: the key is the first word, and the value is the second.
#[derive(Debug)]
pub(super) struct Number;

impl Layout<2> for Number {
    type Key<'k> = u64;
    type HashInput = u64;

    fn hash_input(key: &u64) -> u64 {
        *key
    }

    fn hash_input_in(slot: &Slot<2>) -> u64 {
        slot.word(0)
    }

    fn matches(key: &u64, slot: &Slot<2>) -> bool {
        slot.word(0) == *key
    }

    fn store(key: &u64, slot: &Slot<2>) {
        slot.set_word(0, *key);
    }
}
