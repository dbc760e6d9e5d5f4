//! Directory entries, their locations, and the bits of cookies.

use crate::ondisk::dir::FileTypeByte;
use crate::{FsBlock, Ino};

/// A flag in a cookie: the rest is the number of an overlay entry.
pub(super) const COOKIE_OVERLAY: u64 = 1 << 61;
/// A flag in a cookie: a block before this position was damaged.
pub(super) const COOKIE_DAMAGE: u64 = 1 << 62;
/// An entry of a directory in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The name: no slash, no zero byte, not empty.
    pub name: &'a [u8],
    /// The inode that it refers to.
    pub ino: Ino,
    /// The type of the file, if the entry has one.
    pub file_type: FileTypeByte,
    /// The cookie that continues a listing after this entry. Less than 2^63.
    pub next_cookie: u64,
}

/// The inode and the type in an entry.
pub(crate) type Target = (Ino, FileTypeByte);

/// A block of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Its number in the directory.
    pub number: u32,
    /// Its location.
    pub at: FsBlock,
}
