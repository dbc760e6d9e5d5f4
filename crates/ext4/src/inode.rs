//! An inode in memory: the fixed part of the on-disk inode, decoded on access.
//!
//! Cost: 164 bytes, `Copy`, no heap, so that the inode cache can hold it in the
//! words of a slot.

use crate::Ino;

/// Bytes of an on-disk inode that [`Inode`] keeps: up to and with `i_projid`.
pub const INODE_BYTES: usize = 160;

/// An inode: its number and the fixed fields of its on-disk form.
///
/// Fields that the image's inodes are too small for, or that `i_extra_isize`
/// leaves out, read as zero. Attributes and inline data that lie behind the
/// fixed fields are read from the inode table when they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    ino: Ino,
    raw: [u8; INODE_BYTES],
}

impl Inode {
    /// The inode's number.
    #[must_use]
    pub fn ino(&self) -> Ino {
        self.ino
    }
}
