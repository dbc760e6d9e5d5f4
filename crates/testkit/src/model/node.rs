//! A file of any type in the model.

use super::acl::Acl;
use super::content::Content;
use larder::{FileKind, Timestamp};
use std::collections::BTreeMap;
use std::fmt;

/// `FS_IMMUTABLE_FL`.
pub const IMMUTABLE: u32 = 0x10;
/// `FS_APPEND_FL`.
pub const APPEND: u32 = 0x20;
/// `FS_NODUMP_FL`.
pub const NODUMP: u32 = 0x40;
/// `FS_NOATIME_FL`.
pub const NOATIME: u32 = 0x80;

/// The flags that operations change.
pub const SETTABLE_FLAGS: u32 = IMMUTABLE | APPEND | NODUMP | NOATIME;

/// The flags that a new file inherits from its directory.
pub const INHERITED_FLAGS: u32 = NODUMP | NOATIME;

/// The number of a node, which is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory.
    pub const ROOT: Self = Self(0);
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// The value that a time must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// A time during the operation with this number.
    During(u32),
    /// Exactly this time.
    Exact(Timestamp),
    /// Any time, because Linux does not always set the same one.
    Any,
}

/// The times of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The last access.
    pub accessed: Stamp,
    /// The last change of the content.
    pub modified: Stamp,
    /// The last change of the inode.
    pub changed: Stamp,
}

impl Times {
    /// Returns times that are all `stamp`.
    #[must_use]
    pub fn all(stamp: Stamp) -> Self {
        Self {
            accessed: stamp,
            modified: stamp,
            changed: stamp,
        }
    }
}

/// The part of a node that depends on its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A regular file.
    File(Content),
    /// A directory.
    Directory {
        /// Its entries.
        entries: BTreeMap<Vec<u8>, NodeId>,
        /// The directory that its ".." names.
        parent: NodeId,
    },
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// A device special file.
    Device(FileKind, u32, u32),
    /// A FIFO or a socket.
    Special(FileKind),
}

/// A file of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The part that depends on the type.
    pub body: Body,
    /// The lower 12 bits of the mode.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Hard links.
    pub links: u32,
    /// Flags, a subset of [`SETTABLE_FLAGS`].
    pub flags: u32,
    /// Attributes by their full names, except for access control lists.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The access control list, if it is not equivalent to the permissions.
    pub acl: Option<Acl>,
    /// The default list for new files.
    pub default_acl: Option<Acl>,
    /// The times.
    pub times: Times,
    /// Whether a link to the node is allowed although it has no name. This is true for a node that
    /// never had a name (`O_TMPFILE`).
    pub unnamed: bool,
}

impl Node {
    pub(super) fn new_root() -> Self {
        Self {
            body: Body::Directory {
                entries: BTreeMap::new(),
                parent: NodeId::ROOT,
            },
            permissions: 0o755,
            uid: 0,
            gid: 0,
            // Its own "." and "..", and the ".." of lost+found.
            links: 3,
            flags: 0,
            xattrs: BTreeMap::new(),
            acl: None,
            default_acl: None,
            times: Times::all(Stamp::Any),
            unnamed: false,
        }
    }

    /// Returns its type.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        match self.body {
            Body::File(_) => FileKind::Regular,
            Body::Directory { .. } => FileKind::Directory,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Device(kind, ..) | Body::Special(kind) => kind,
        }
    }

    /// Returns whether it is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory { .. })
    }

    /// Returns a directory's entries.
    #[must_use]
    pub fn entries(&self) -> Option<&BTreeMap<Vec<u8>, NodeId>> {
        match &self.body {
            Body::Directory { entries, .. } => Some(entries),
            _ => None,
        }
    }

    /// Returns a regular file's content.
    #[must_use]
    pub fn content(&self) -> Option<&Content> {
        match &self.body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }

    /// Returns whether any of these flags is set.
    #[must_use]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// Returns all attributes, with access control lists in the form that programs see.
    #[must_use]
    pub fn attributes(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all = self.xattrs.clone();
        let lists = [
            (super::acl::ACCESS, &self.acl),
            (super::acl::DEFAULT, &self.default_acl),
        ];
        for (name, acl) in lists {
            if let Some(acl) = acl {
                all.insert(name.to_vec(), acl.encode());
            }
        }
        all
    }
}
