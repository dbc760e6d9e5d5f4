//! The published hash functions of the buffer cache. Their inputs are the numbers of the device and the block.
//!
//! # Model
//! Lever 2000, section 3.2. Only the function of the reference kernel uses the device.

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
