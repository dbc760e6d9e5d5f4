//! The published hash functions of the page cache. Their inputs are the address of the inode and the offset
//! of the page in bytes.
//!
//! # Model
//! Lever 2000, section 3.1. The functions here compute the address and the offset from the numbers of the
//! inode and the page.

use super::HashKey;
use super::word::Word;

/// The shift that converts the number of a page to its offset: `PAGE_SHIFT`.
pub(super) const PAGE: u32 = 12;

/// The shift for keys whose index is the offset itself, such as swap entries.
pub(super) const ENTRY: u32 = 0;

/// `sizeof(struct inode)`, which is not published. This value is an odd multiple of 16.
const INODE_BYTES: u64 = 336;

/// The log2 of the lowest bit that is set in the size. The formula divides the address by this bit.
const INODE_ALIGNMENT: u32 = INODE_BYTES.trailing_zeros();

/// The function of the reference kernel: `s(i+o)`, masked.
#[inline]
pub(super) fn reference<W: Word, const SHIFT: u32>(key: HashKey, bits: u32) -> u32 {
    added(inode_and_page::<W, SHIFT>(key), bits)
}

/// S. Tweedie's function: `s(i+o+offset)`, masked.
#[inline]
pub(super) fn with_offset<W: Word, const SHIFT: u32>(key: HashKey, bits: u32) -> u32 {
    let sum = inode_and_page::<W, SHIFT>(key) + offset::<W, SHIFT>(key);
    added(sum, bits)
}

/// The multiplicative function: the upper bits of the product.
#[inline]
pub(super) fn multiplicative<W: Word, const SHIFT: u32>(key: HashKey, bits: u32) -> u32 {
    sum::<W, SHIFT>(key).multiplied().upper(bits)
}

/// Returns the number that [`multiplicative`] multiplies.
#[inline]
pub(super) fn sum<W: Word, const SHIFT: u32>(key: HashKey) -> W {
    address::<W>(key) + offset::<W, SHIFT>(key)
}

#[inline]
fn inode_and_page<W: Word, const SHIFT: u32>(key: HashKey) -> W {
    address::<W>(key).right(INODE_ALIGNMENT) + offset::<W, SHIFT>(key).right(PAGE)
}

#[inline]
fn address<W: Word>(key: HashKey) -> W {
    W::address(key.object, INODE_BYTES)
}

#[inline]
fn offset<W: Word, const SHIFT: u32>(key: HashKey) -> W {
    W::new(key.index).left(SHIFT)
}

/// The macro `s`: the sum plus its upper part, masked.
#[inline]
fn added<W: Word>(sum: W, bits: u32) -> u32 {
    (sum + sum.right(bits)).masked(bits)
}
