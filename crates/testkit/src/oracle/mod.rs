//! Two views of one image, compared: the kernel's mount and ours.
//!
//! A [`Source`] is anything that files can be listed in and read from: a
//! directory ([`DirectorySource`], which does for the kernel's mount and for a
//! FUSE mount alike) or a [`larder::Volume`] ([`VolumeSource`]). [`compare()`]
//! walks two of them at once and tells where they differ.

mod compare;
mod directory;
mod mounted;
mod volume;

pub use compare::{Comparison, Report, compare};
pub use directory::DirectorySource;
pub use mounted::Oracle;
pub use volume::VolumeSource;

use crate::error::Result;
use larder::FileKind;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

bitflags::bitflags! {
    /// What is compared.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fields: u32 {
        /// Inode numbers, also of directory entries, and the entries' types.
        const INODES = 1;
        /// Space used, and the sizes of directories.
        const SPACE = 1 << 1;
        /// Seconds of the last change of the content, of what is no directory.
        const MODIFIED = 1 << 2;
        /// All times but creation, to the nanosecond, of what is no directory.
        const TIMES = 1 << 3;
        /// All times of directories but creation.
        const DIRECTORY_TIMES = 1 << 6;
        /// The time of creation, where times are compared.
        const CREATED = 1 << 7;
        /// Where the holes are.
        const HOLES = 1 << 4;
        /// Attributes, access control lists among them.
        const ATTRIBUTES = 1 << 5;
    }
}

impl Fields {
    /// What a copy by mke2fs keeps: it makes its own inodes and holes, and
    /// rounds the times.
    pub const COPIED: Self = Self::MODIFIED.union(Self::ATTRIBUTES);
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Entry<N> {
    /// The name.
    pub name: Vec<u8>,
    /// What leads to the file.
    pub node: N,
    /// The inode number that the directory shows.
    pub ino: u64,
    /// The type that the directory shows, if it does.
    pub kind: Option<FileKind>,
}

/// Seconds since 1970 and nanoseconds.
pub type Time = (i64, u32);

/// What stat(2) tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Inode number.
    pub ino: u64,
    /// Type.
    pub kind: FileKind,
    /// The low 12 bits of the mode.
    pub permissions: u16,
    /// Hard links.
    pub links: u32,
    /// Owner and group.
    pub owners: (u32, u32),
    /// Device number, major and minor; zeros for what is no device.
    pub rdev: (u32, u32),
    /// Size.
    pub size_bytes: u64,
    /// Space used, in units of 512 bytes.
    pub blocks_512: u64,
    /// Last access.
    pub accessed: Time,
    /// Last change of the content.
    pub modified: Time,
    /// Last change of the inode.
    pub changed: Time,
    /// Creation, if recorded.
    pub created: Option<Time>,
}

/// Attributes by their full names.
pub type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

/// Something with files in it.
pub trait Source {
    /// What leads to a file.
    type Node: Clone + Debug;

    /// What it is called in reports.
    fn label(&self) -> &str;

    /// The root directory.
    fn root(&self) -> Self::Node;

    /// The names in a directory but `.` and `..`, in any order.
    fn entries(&self, node: &Self::Node) -> Result<Vec<Entry<Self::Node>>>;

    /// What stat(2) tells, of a symbolic link itself.
    fn stat(&self, node: &Self::Node) -> Result<Stat>;

    /// The target of a symbolic link.
    fn target(&self, node: &Self::Node) -> Result<Vec<u8>>;

    /// All attributes.
    fn attributes(&self, node: &Self::Node) -> Result<Attributes>;

    /// Where a regular file of `size_bytes` has data, by `SEEK_DATA` and `SEEK_HOLE`.
    fn data_runs(&self, node: &Self::Node, size_bytes: u64) -> Result<Vec<Range<u64>>>;

    /// Reads a regular file; fewer bytes than asked only at its end.
    fn read_at(&self, node: &Self::Node, buf: &mut [u8], offset_bytes: u64) -> Result<usize>;
}
