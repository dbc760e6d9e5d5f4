//! An entry of a directory, and where it is.

use crate::ondisk::dir::FileTypeByte;
use crate::{FsBlock, Ino};

/// In a cookie: the rest counts the overlay's entries.
pub(super) const COOKIE_OVERLAY: u64 = 1 << 61;
/// In a cookie: a block before was damaged.
pub(super) const COOKIE_DAMAGE: u64 = 1 << 62;
/// An entry of a directory, as a listing shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The name: no slash, no zero byte, not empty.
    pub name: &'a [u8],
    /// The inode that it leads to.
    pub ino: Ino,
    /// The file's type, if the entry has it.
    pub file_type: FileTypeByte,
    /// Continues a listing behind this entry. Less than 2^63.
    pub next_cookie: u64,
}

/// What a name leads to.
pub(crate) type Target = (Ino, FileTypeByte);

/// A block of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Its number in the directory.
    pub number: u32,
    /// Where it lies.
    pub at: FsBlock,
}
