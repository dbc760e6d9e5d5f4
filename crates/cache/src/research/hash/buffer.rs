//! The published hash functions of the buffer cache. Their inputs are the numbers of the device and the block.
//!
//! # Model
//! Lever 2000, section 3.2. The functions that Lever proposes ignore the device.
//!
//! The printed version of the paper mentions the function of Linux 2.2.16 without its formula: "a fairly
//! complex shift-add function". It replaced the reference function after Lever's measurements. A. Arcangeli
//! described it on linux-kernel (12 March 2002), and [`shift_xor`] follows this description.

use super::HashKey;
use super::word::Word;

/// The function of the reference kernel: device xor block, masked.
#[inline]
pub(super) fn reference<W: Word>(key: HashKey, bits: u32) -> u32 {
    (W::new(key.object) ^ W::new(key.index)).masked(bits)
}

/// The multiplicative function: the product, shifted right by `SHIFT`, masked.
#[inline]
pub(super) fn multiplicative<W: Word, const SHIFT: u32>(key: HashKey, bits: u32) -> u32 {
    W::new(key.index).multiplied().right(SHIFT).masked(bits)
}

/// P. Steiner's shift-add function, which multiplies by the Mersenne prime 127.
#[inline]
pub(super) fn steiner<W: Word>(key: HashKey, bits: u32) -> u32 {
    let block = W::new(key.index);
    (block.left(7) - block + block.right(10) + block.right(18)).masked(bits)
}

/// The function of Linux 2.2.16. Device and block are shifted left according to the size of the table. The
/// results and the upper part of the block are combined by exclusive or. With fewer than 12 bits, some shifts
/// would be negative, which is undefined in C. Here they are 0.
#[inline]
pub(super) fn shift_xor<W: Word>(key: HashKey, bits: u32) -> u32 {
    let (device, block) = (W::new(key.object), W::new(key.index));
    let by_table = |word: W, below: u32| word.left(bits.saturating_sub(below));
    let shifted = by_table(device ^ block, 6) ^ by_table(device, 9) ^ by_table(block, 12);
    (shifted ^ block.right(13)).masked(bits)
}
