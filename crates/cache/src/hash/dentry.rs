//! The published hash functions of the dentry cache: of the parent's address and the name's hash.
//!
//! # Model
//! Lever 2000, section 3.3.

use super::HashKey;
use super::word::Word;

/// `sizeof(struct dentry)`, which is not published. Ours is a whole number of cache lines.
const DENTRY_BYTES: u64 = 128;

/// The sum that all of them begin with.
#[inline]
pub(super) fn sum<W: Word>(key: HashKey) -> W {
    W::new(key.index) + W::address(key.object, DENTRY_BYTES)
}

/// The reference kernel's: the sum xor its upper parts, masked.
#[inline]
pub(super) fn reference<W: Word>(key: HashKey, bits: u32) -> u32 {
    let hash = sum::<W>(key);
    (hash ^ hash.right(bits) ^ hash.right(bits * 2)).masked(bits)
}

/// The same with additions in place of xor.
#[inline]
pub(super) fn added<W: Word>(key: HashKey, bits: u32) -> u32 {
    let hash = sum::<W>(key);
    (hash + hash.right(bits) + hash.right(bits * 2)).masked(bits)
}

/// The multiplicative one: the product, shifted right by `SHIFT`, masked.
#[inline]
pub(super) fn multiplicative<W: Word, const SHIFT: u32>(key: HashKey, bits: u32) -> u32 {
    sum::<W>(key).multiplied().right(SHIFT).masked(bits)
}
