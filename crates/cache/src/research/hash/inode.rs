//! The published hash functions of the inode cache. Their inputs are the address of the superblock and the
//! inode number.
//!
//! # Model
//! Lever 2000, section 3.4. The paper describes two functions without their code. Here they are interpreted
//! as follows. "The multiplicative hash function introduced above" is the function of the page cache, applied
//! to the sum of address and number. "A slightly modified shift-add hash function", which the kernels A to D
//! have, is the function of the reference kernel with two changes. First, it divides the address, whose lower
//! bits are always 0. Second, it adds the address and the number: a bitwise or would lose the bits that are
//! set in both.

use super::HashKey;
use super::word::Word;

/// `sizeof(struct super_block)`, which is not published. This value is the size that a power-of-two
/// allocator would use.
const SUPER_BLOCK_BYTES: u64 = 1024;

/// The log2 of the size of a cache line in bytes. On the measured machines the size was 32.
const CACHE_LINE_SHIFT: u32 = 5;

/// Returns `tmp` plus its upper parts, masked.
#[inline]
fn added<W: Word>(tmp: W, bits: u32) -> u32 {
    (tmp + tmp.right(bits) + tmp.right(bits * 2)).masked(bits)
}

#[inline]
fn super_block<W: Word>(key: HashKey) -> W {
    W::address(key.object, SUPER_BLOCK_BYTES)
}

/// Returns the number that [`multiplicative`] multiplies.
#[inline]
pub(super) fn sum<W: Word>(key: HashKey) -> W {
    W::new(key.index) + super_block(key)
}

/// The function of the reference kernel: number or address, shifted and added.
#[inline]
pub(super) fn reference<W: Word>(key: HashKey, bits: u32) -> u32 {
    added(W::new(key.index) | super_block(key), bits)
}

/// The slightly modified function, as interpreted here: number plus divided address, shifted and added.
#[inline]
pub(super) fn modified<W: Word>(key: HashKey, bits: u32) -> u32 {
    let cache_line = super_block::<W>(key).right(CACHE_LINE_SHIFT);
    added(W::new(key.index) + cache_line, bits)
}

/// The multiplicative function, as interpreted here: the upper bits of the product.
#[inline]
pub(super) fn multiplicative<W: Word>(key: HashKey, bits: u32) -> u32 {
    sum::<W>(key).multiplied().upper(bits)
}
