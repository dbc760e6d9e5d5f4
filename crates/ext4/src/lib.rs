//! Safe access to ext2, ext3 and ext4 file systems: the on-disk format, and operations on it.
//!
//! - [`ondisk`] is the codec: it converts bytes to values and back, without I/O.
//!   On-disk names (`s_`, `i_`, `bg_`) are used only there.
//! - [`journal`] replays the journal, in memory or onto the image, and commits changes.
//! - [`Filesystem`] reads and changes inodes, the mapping of file blocks to device blocks,
//!   directories and attributes. It reads metadata blocks through the buffer cache. Its own state
//!   is the superblock, the changes of fast commits, and the state for writing.
//!
//! An image is untrusted input: whatever its bytes, this crate does not panic, loop forever or
//! allocate memory without bound.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let image = dir.path().join("disk.img");
//! # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
//! use larder_block::{FileDevice, FileRange};
//! use larder_ext4::ondisk::superblock::Superblock;
//!
//! let device = FileDevice::open(&image, FileRange::default())?;
//! let (superblock, repair) = Superblock::read_or_restore(&device)?;
//! assert_eq!(superblock.size_bytes(), 16 << 20);
//! assert!(repair.is_none());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod ahead;
mod alloc;
mod attempt;
mod dir;
mod error;
mod fs;
mod htree;
mod inline;
mod inode;
mod invariant;
pub mod journal;
mod map;
mod mmp;
mod needs;
pub mod ondisk;
mod statfs;
mod superblock_repair;
mod superblock_state;
mod superblock_write;
mod symlink;
mod sync;
mod types;
mod xattr;

pub use alloc::{Claim, Goal, MappingReservation, Privilege, Reservation};
pub use attempt::{MayWait, MemoryOnly};
pub use dir::DirEntry;
pub use error::{Corrupt, Error, Place, Result};
pub use fs::{Filesystem, InodeBytes, Statfs};
pub use inode::create::NewInode;
pub use inode::{DeviceNumber, FileKind, INODE_BYTES, INODE_WORDS, Inode};
pub use journal::{Handle, JournalCounts, Now, Tid, WriteOptions};
pub use map::write::MappingLevel;
pub use map::{FileBlocks, Mapping, MappingKind};
pub use mmp::{Mmp, MmpHost};
pub use ondisk::dir::FileTypeByte;
pub use types::{FileBlock, FsBlock, GroupNo, Ino};
pub use xattr::write::{XattrChange, XattrMode};
pub use xattr::{
    MAX_VALUE_BYTES as MAX_XATTR_VALUE_BYTES, ShareCounts, XattrOffer,
    check_name_length as check_xattr_name_length,
};
