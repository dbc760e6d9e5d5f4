//! ext2, ext3 and ext4, read safely: the on-disk format and the walks over it.
//!
//! - [`ondisk`] is the codec: bytes to values and back, no I/O. On-disk names
//!   (`s_`, `i_`, `bg_`) live only there.
//! - [`journal`] finds what a journal left to be replayed, without writing.
//! - [`Filesystem`] walks: inode by number, file block to device block, name to
//!   inode, directory listings, attributes. It keeps no state of its own beyond
//!   the superblock; metadata blocks live in the buffer cache.
//!
//! An image is hostile input: nothing here panics, loops or allocates without
//! bound on any bytes whatever.

#![forbid(unsafe_code)]

mod alloc;
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
pub mod ondisk;
mod statfs;
mod superblock_repair;
mod superblock_write;
mod symlink;
mod sync;
mod types;
mod xattr;

pub use alloc::{Claim, Goal, MappingReservation, Reservation};
pub use dir::DirEntry;
pub use error::{Corrupt, Error, Place, Result};
pub use fs::{Filesystem, InodeBytes, Statfs};
pub use inode::write::NewInode;
pub use inode::{DeviceNumber, FileKind, INODE_BYTES, INODE_WORDS, Inode};
pub use journal::{Handle, Tid, WriteOptions};
pub use map::write::MappingLevel;
pub use map::{FileBlocks, Mapping, MappingKind};
pub use mmp::{Mmp, MmpHost};
pub use ondisk::dir::FileTypeByte;
pub use types::{FileBlock, FsBlock, GroupNo, Ino};
pub use xattr::write::{XattrChange, XattrMode};
pub use xattr::{ShareCounts, XattrOffer};
