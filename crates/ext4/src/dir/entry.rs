//! Directory entries, their locations, and the flags in cookies.

use crate::ondisk::dir::FileTypeByte;
use crate::{FsBlock, Ino};

/// The maximum length of a name in bytes.
pub(super) const MAX_NAME_BYTES: usize = 255;
/// The flag of a cookie whose other bits are the number of an entry in the overlay.
pub(super) const COOKIE_OVERLAY: u64 = 1 << 61;
/// The flag of a cookie that records damage before its position.
pub(super) const COOKIE_DAMAGE: u64 = 1 << 62;
/// A directory entry as a listing returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The name: no slash, no zero byte, not empty.
    pub name: &'a [u8],
    /// The inode that the name refers to.
    pub ino: Ino,
    /// The type of the file, or unknown if directory entries have no type.
    pub file_type: FileTypeByte,
    /// The cookie that continues a listing after this entry. Less than 2^63.
    pub next_cookie: u64,
}

/// The inode and the file type that a directory entry contains.
pub(crate) type Target = (Ino, FileTypeByte);

/// A block of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// The number of the block in the directory, counted from 0.
    pub number: u32,
    /// The location of the block in the file system.
    pub at: FsBlock,
}
