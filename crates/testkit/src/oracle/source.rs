//! The interface of a set of files, and the fields that are compared.

use crate::error::Result;
use larder::FileKind;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

bitflags::bitflags! {
    /// The compared fields.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fields: u32 {
        /// Inode numbers, also in directory entries, and the entries' types.
        const INODES = 1;
        /// Space used, and the sizes of directories.
        const SPACE = 1 << 1;
        /// The time of the last change of the content, in seconds, except for directories.
        const MODIFIED = 1 << 2;
        /// All times except creation, in nanoseconds, except for directories.
        const TIMES = 1 << 3;
        /// All times of directories except creation.
        const DIRECTORY_TIMES = 1 << 6;
        /// The time of creation, if times are compared.
        const CREATED = 1 << 7;
        /// The location of holes.
        const HOLES = 1 << 4;
        /// Attributes, including access control lists.
        const ATTRIBUTES = 1 << 5;
    }
}

impl Fields {
    /// The fields that a copy by mke2fs preserves: it creates its own inodes and holes, and rounds the
    /// times.
    pub const COPIED: Self = Self::MODIFIED.union(Self::ATTRIBUTES);
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Entry<N> {
    /// The name.
    pub name: Vec<u8>,
    /// The handle of the file.
    pub node: N,
    /// The inode number that the directory shows.
    pub ino: u64,
    /// The type that the directory shows, if any.
    pub kind: Option<FileKind>,
}

/// Seconds since 1970 and nanoseconds.
pub type Time = (i64, u32);

/// The result of stat(2).
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
    /// Device number, major and minor; zeros if the file is not a device.
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

/// A set of files.
pub trait Source {
    /// The handle of a file.
    type Node: Clone + Debug;

    /// Returns the name of the source in reports.
    fn label(&self) -> &str;

    /// Returns the root directory.
    fn root(&self) -> Self::Node;

    /// Returns the names in a directory except `.` and `..`, in any order.
    fn entries(&self, node: &Self::Node) -> Result<Vec<Entry<Self::Node>>>;

    /// Returns the result of stat(2), for a symbolic link that of the link itself.
    fn stat(&self, node: &Self::Node) -> Result<Stat>;

    /// Returns the target of a symbolic link.
    fn target(&self, node: &Self::Node) -> Result<Vec<u8>>;

    /// Returns all attributes.
    fn attributes(&self, node: &Self::Node) -> Result<Attributes>;

    /// Returns the data ranges of a regular file of `size_bytes`, found with `SEEK_DATA` and
    /// `SEEK_HOLE`.
    fn data_runs(&self, node: &Self::Node, size_bytes: u64) -> Result<Vec<Range<u64>>>;

    /// Reads a regular file. Returns fewer bytes than requested only at the end of the file.
    fn read_at(&self, node: &Self::Node, buf: &mut [u8], offset_bytes: u64) -> Result<usize>;
}
