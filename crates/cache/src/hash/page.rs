//! The published hash functions of the page cache, of an inode's address and a page's offset.
//!
//! # Model
//! Lever 2000, section 3.1. The offset is in bytes and is that of a whole page, so the functions
//! compute it from the page's number.

use super::HashKey;
use super::word::Word;

/// The log2 of the bytes in a page: `PAGE_SHIFT`. It converts a page's number to its offset.
pub(super) const PAGE: u32 = 12;

/// The same for keys whose index is the offset itself, such as a swap entry.
pub(super) const ENTRY: u32 = 0;

/// `sizeof(struct inode)`, which is not published. This value is an odd multiple of 16.
const INODE_BYTES: u64 = 336;

/// The lowest bit of the size, by which the formula divides the address.
const INODE_ALIGNMENT: u32 = INODE_BYTES.trailing_zeros();

/// The function of the reference kernel, of an offset in bytes: `s(i+o)`, masked.
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

/// The multiplicative function: the upper bits of the product. The formula shifts by 32 minus
/// `bits`, since its word has 32.
#[inline]
pub(super) fn multiplicative<W: Word, const SHIFT: u32>(key: HashKey, bits: u32) -> u32 {
    sum::<W, SHIFT>(key).multiplied().upper(bits)
}

/// Returns the multiplicand of [`multiplicative`].
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
