//! The published hash functions of the dentry cache. Their inputs are the address of the parent and the hash
//! of the name.
//!
//! # Model
//! Lever 2000, section 3.3.

use super::HashKey;
use super::word::Word;

/// `sizeof(struct dentry)`, which is not published. This value is a whole number of cache lines.
const DENTRY_BYTES: u64 = 128;

/// Returns the sum that all of the functions compute first.
#[inline]
pub(super) fn sum<W: Word>(key: HashKey) -> W {
    W::new(key.index) + W::address(key.object, DENTRY_BYTES)
}

/// The function of the reference kernel: the sum xor its upper parts, masked.
#[inline]
pub(super) fn reference<W: Word>(key: HashKey, bits: u32) -> u32 {
    let hash = sum::<W>(key);
    (hash ^ hash.right(bits) ^ hash.right(bits * 2)).masked(bits)
}

/// The function of the reference kernel with additions instead of xor.
#[inline]
pub(super) fn added<W: Word>(key: HashKey, bits: u32) -> u32 {
    let hash = sum::<W>(key);
    (hash + hash.right(bits) + hash.right(bits * 2)).masked(bits)
}

/// The multiplicative function: the product, shifted right by `SHIFT`, masked.
#[inline]
pub(super) fn multiplicative<W: Word, const SHIFT: u32>(key: HashKey, bits: u32) -> u32 {
    sum::<W>(key).multiplied().right(SHIFT).masked(bits)
}
