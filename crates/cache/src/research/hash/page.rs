//! The published hash functions of the page cache. Their inputs are the address of the inode and the offset
//! of the page in bytes.
//!
//! # Model
//! Lever 2000, section 3.1. The functions here compute the address and the offset from the numbers of the
//! inode and the page. For an [`AddressedPage`], the caller gives the address.
//!
//! The formulas use the kernel's macros: `i` is the address of the inode, divided by the lowest bit that is set
//! in the size of an inode; `o` is the number of the page; and `s(x)` is `x + (x >> bits)`, where `bits`
//! is the number of bits of the hash.

use super::HashKey;
use super::word::Word;

/// The shift that converts the number of a page to its offset: `PAGE_SHIFT`.
pub(super) const PAGE: u32 = 12;

/// The shift for keys whose index is the offset itself, such as swap entries.
pub(super) const ENTRY: u32 = 0;

/// The `sizeof(struct inode)` that Larder assumes, because none is published. In Linux 2.2.5 on i386, it was probably 268,
/// by a count of the fields. The formula divides the address by the lowest bit that is set in the size: with 336, by 16.
const INODE_BYTES: u64 = 336;

/// A page of a file whose inode is at a known address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressedPage {
    /// The address of the inode.
    pub inode: u64,
    /// `sizeof(struct inode)`, at least 1.
    pub inode_bytes: u64,
    /// The number of the page in the file.
    pub page: u64,
}

/// The input of the formulas.
#[derive(Clone, Copy)]
pub(super) struct Input<W> {
    /// The address of the inode.
    inode: W,
    /// The log2 of the lowest bit that is set in the size of an inode. The formula divides the address by this bit.
    alignment: u32,
    /// The offset of the page in bytes.
    offset: W,
}

impl<W: Word> From<AddressedPage> for Input<W> {
    fn from(page: AddressedPage) -> Self {
        Self {
            inode: W::new(page.inode),
            alignment: page.inode_bytes.trailing_zeros(),
            offset: W::new(page.page).left(PAGE),
        }
    }
}

impl<W: Word> Input<W> {
    #[inline]
    fn of<const SHIFT: u32>(key: HashKey) -> Self {
        Self {
            inode: W::address(key.object, INODE_BYTES),
            alignment: INODE_BYTES.trailing_zeros(),
            offset: W::new(key.index).left(SHIFT),
        }
    }

    #[inline]
    pub(super) fn reference(self, bits: u32) -> u32 {
        added(self.inode_and_page(), bits)
    }

    #[inline]
    pub(super) fn with_offset(self, bits: u32) -> u32 {
        added(self.inode_and_page() + self.offset, bits)
    }

    #[inline]
    pub(super) fn multiplicative(self, bits: u32) -> u32 {
        self.sum().multiplied().upper(bits)
    }

    #[inline]
    fn sum(self) -> W {
        self.inode + self.offset
    }

    #[inline]
    fn inode_and_page(self) -> W {
        self.inode.right(self.alignment) + self.offset.right(PAGE)
    }
}

/// The function of the reference kernel: `s(i+o)`, masked.
#[inline]
pub(super) fn reference<W: Word, const SHIFT: u32>(key: HashKey, bits: u32) -> u32 {
    Input::<W>::of::<SHIFT>(key).reference(bits)
}

/// S. Tweedie's function: `s(i+o+offset)`, masked.
#[inline]
pub(super) fn with_offset<W: Word, const SHIFT: u32>(key: HashKey, bits: u32) -> u32 {
    Input::<W>::of::<SHIFT>(key).with_offset(bits)
}

/// The multiplicative function: the upper bits of the product.
#[inline]
pub(super) fn multiplicative<W: Word, const SHIFT: u32>(key: HashKey, bits: u32) -> u32 {
    Input::<W>::of::<SHIFT>(key).multiplicative(bits)
}

/// Returns the number that [`multiplicative`] multiplies.
#[inline]
pub(super) fn sum<W: Word, const SHIFT: u32>(key: HashKey) -> W {
    Input::<W>::of::<SHIFT>(key).sum()
}

/// The macro `s`: the sum plus its upper part, masked.
#[inline]
fn added<W: Word>(sum: W, bits: u32) -> u32 {
    (sum + sum.right(bits)).masked(bits)
}
