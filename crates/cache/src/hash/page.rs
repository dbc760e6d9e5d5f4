//! The published hash functions of the page cache: of an inode's address and a page's offset.
//!
//! # Model
//! Lever 2000, section 3.1. The offset counts bytes, and is that of a whole page, so the functions
//! make it from the page's number.

use super::HashKey;
use super::word::Word;
use crate::table::HashFunction;
use std::marker::PhantomData;

/// Bytes of a page, as a power of two: `PAGE_SHIFT`.
const PAGE_SHIFT: u32 = 12;

/// `sizeof(struct inode)`, which is not published. Ours is a multiple of 16 by an odd number.
const INODE_BYTES: u64 = 336;

/// The lowest bit of the size, by which the formula divides the address.
const INODE_ALIGNMENT: u32 = INODE_BYTES.trailing_zeros();

/// The reference kernel's, of an offset in bytes: `s(i+o)`, masked.
#[inline]
fn reference<W: Word>(inode: W, offset: W, bits: u32) -> u32 {
    added(
        inode.right(INODE_ALIGNMENT) + offset.right(PAGE_SHIFT),
        bits,
    )
}

/// S. Tweedie's: `s(i+o+offset)`, masked.
#[inline]
fn with_offset<W: Word>(inode: W, offset: W, bits: u32) -> u32 {
    let sum = inode.right(INODE_ALIGNMENT) + offset.right(PAGE_SHIFT) + offset;
    added(sum, bits)
}

/// The multiplicative one: the upper bits of the product. The formula shifts by 32 less `bits`,
/// since its word has 32.
#[inline]
fn multiplicative<W: Word>(inode: W, offset: W, bits: u32) -> u32 {
    (inode + offset).multiplied().upper(bits)
}

/// What [`PageMult`] multiplies.
pub(super) fn sum<W: Word>(key: HashKey) -> W {
    address::<W>(key) + offset(key)
}

#[inline]
fn address<W: Word>(key: HashKey) -> W {
    W::address(key.object, INODE_BYTES)
}

/// The offset of a file's page.
#[inline]
fn offset<W: Word>(key: HashKey) -> W {
    W::new(key.index).left(PAGE_SHIFT)
}

/// The macro `s`: the sum, and its upper part once more, masked.
#[inline]
fn added<W: Word>(sum: W, bits: u32) -> u32 {
    (sum + sum.right(bits)).masked(bits)
}

/// A function of keys whose index is a page's number, and one of keys whose index is the offset
/// itself, as a swap entry is.
macro_rules! of_pages_and_entries {
    ($page:ident, $entry:ident, $formula:ident) => {
        #[doc = concat!("[`", stringify!($formula), "()`] of a file's page.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $page<W>(PhantomData<W>);

        impl<W: Word> HashFunction<HashKey> for $page<W> {
            #[inline]
            fn bucket(&self, key: HashKey, bits: u32) -> u32 {
                $formula(address::<W>(key), offset(key), bits)
            }
        }

        #[doc = concat!("[`", stringify!($formula), "()`] of a swap entry.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $entry<W>(PhantomData<W>);

        impl<W: Word> HashFunction<HashKey> for $entry<W> {
            #[inline]
            fn bucket(&self, key: HashKey, bits: u32) -> u32 {
                $formula(address::<W>(key), W::new(key.index), bits)
            }
        }
    };
}

of_pages_and_entries!(PageReference, SwapReference, reference);
of_pages_and_entries!(PageOffset, SwapOffset, with_offset);
of_pages_and_entries!(PageMult, SwapMult, multiplicative);
