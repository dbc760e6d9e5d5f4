//! The published hash functions of the inode cache: of the super block's address and the inode's
//! number.
//!
//! # Model
//! Lever 2000, section 3.4. Of two functions it tells without printing them. "The multiplicative
//! hash function introduced above" is taken as the page cache's, over the sum of address
//! and number. "A slightly modified shift-add hash function", which the kernels A to D have, is
//! taken as the reference kernel's with a sum where that has an or, which loses the number's bits that
//! the address has too; and the address is divided first, since its lower bits are always 0.

use super::HashKey;
use super::word::Word;

/// `sizeof(struct super_block)`, which is not published. Ours is what a power-of-two allocator
/// would take for it.
const SUPER_BLOCK_BYTES: u64 = 1024;

/// A cache line of the machines measured, 32 bytes, as a power of two.
const CACHE_LINE_SHIFT: u32 = 5;

/// `tmp`, and its upper parts added, masked.
#[inline]
fn added<W: Word>(tmp: W, bits: u32) -> u32 {
    (tmp + tmp.right(bits) + tmp.right(bits * 2)).masked(bits)
}

#[inline]
fn super_block<W: Word>(key: HashKey) -> W {
    W::address(key.object, SUPER_BLOCK_BYTES)
}

/// What [`multiplicative`] multiplies.
#[inline]
pub(super) fn sum<W: Word>(key: HashKey) -> W {
    W::new(key.index) + super_block(key)
}

/// The reference kernel's: number or address, shifted and added.
#[inline]
pub(super) fn reference<W: Word>(key: HashKey, bits: u32) -> u32 {
    added(W::new(key.index) | super_block(key), bits)
}

/// The slightly modified one, as we read it: number plus cache line, shifted and added.
#[inline]
pub(super) fn modified<W: Word>(key: HashKey, bits: u32) -> u32 {
    let cache_line = super_block::<W>(key).right(CACHE_LINE_SHIFT);
    added(W::new(key.index) + cache_line, bits)
}

/// The multiplicative one, as we read it: the upper bits of the product.
#[inline]
pub(super) fn multiplicative<W: Word>(key: HashKey, bits: u32) -> u32 {
    sum::<W>(key).multiplied().upper(bits)
}
