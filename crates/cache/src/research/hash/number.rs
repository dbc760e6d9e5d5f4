//! Hash functions of two kernel tables that are not caches: the tables of processes and of users. Their key
//! is a single number. Lever 2000, section 6, leaves both tables to future work.
//!
//! # Model
//! Linux 2.2 has one function for both: the number xor its bits from the ninth up, masked. The table of
//! processes has a bucket for every four process slots, and the table of users has a quarter as many
//! buckets: 128 and 32 by default. The number of buckets is not rounded to a power of two. With 4000 process
//! slots, as in the kernels of Lever 2000, there are 1000 buckets of processes, and the mask is 999. Only
//! eight bits of this mask are set. Therefore at most 256 buckets are used.

use super::HashKey;
use super::word::Word;

/// The function of Linux 2.2.
#[inline]
pub(super) fn reference<W: Word>(key: HashKey, bits: u32) -> u32 {
    let number = W::new(key.index);
    (number ^ number.right(8)).masked(bits)
}

/// The function of Linux 2.2 for processes, with the mask of a kernel of `SLOTS` process slots.
#[inline]
pub(super) fn reference_with_slots<W: Word, const SLOTS: u32>(key: HashKey, bits: u32) -> u32 {
    reference::<W>(key, bits) & (SLOTS / 4 - 1)
}

/// The function that Linux has had for users since 2.6: the number plus its upper part, masked.
#[inline]
pub(super) fn added<W: Word>(key: HashKey, bits: u32) -> u32 {
    let number = W::new(key.index);
    (number + number.right(bits)).masked(bits)
}
