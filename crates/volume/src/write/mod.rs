//! Writing: the operations that change an image.
//!
//! Model: the kernel's VFS and ext4 above the journal. An operation takes the locks of the inodes
//! that it concerns, opens a handle, changes metadata, and stops the handle. Content is written to
//! the page cache, and to the device at write-back. Blocks are allocated only then (delayed
//! allocation), and mapped only after the data is on the device. Thus no commit exposes the
//! previous contents of a block.

mod allocate;
mod content;
mod delayed;
mod inline;
mod link;
mod names;
mod orphans;
mod pages;
mod past_cache;
mod rename;
mod settings;
mod truncate;
mod unlink;

use crate::fill::PageFiller;
use crate::live::Inodes;
use crate::write_back::WriteBack;
use crate::write_back::retry::retry_after_commit;
use crate::{Clock, Result, Timestamp};
use bitflags::bitflags;
pub use larder_ext4::{DeviceNumber, FileKind, XattrMode};
use larder_ext4::{Filesystem, Inode};
use std::sync::Arc;

/// Changes the content of a volume's files, and deletes files. Dirty content is in the page cache,
/// where readers find it.
#[derive(Debug)]
pub(crate) struct Writer {
    inodes: Arc<Inodes>,
    /// Fills pages that are changed in part.
    filler: PageFiller,
    write_back: Arc<WriteBack>,
    clock: Arc<dyn Clock>,
}

impl Writer {
    pub(crate) fn new(
        inodes: &Arc<Inodes>,
        filler: PageFiller,
        write_back: WriteBack,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self {
            inodes: Arc::clone(inodes),
            filler,
            write_back: Arc::new(write_back),
            clock: Arc::clone(clock),
        }
    }

    /// Returns the write-back of dirty pages.
    pub(crate) fn write_back(&self) -> &Arc<WriteBack> {
        &self.write_back
    }

    fn fs(&self) -> &Filesystem {
        &self.inodes.fs
    }

    /// Returns the timestamp for changes that are made now.
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the times of content and inode to the current time.
    fn stamp(&self, inode: &mut Inode) {
        let now = self.now();
        inode.set_mtime(now);
        inode.set_ctime(now);
    }

    /// Calls `run` like [`retry_after_commit`]. The caller holds no lock.
    fn change<R>(&self, run: impl FnMut() -> Result<R>) -> Result<R> {
        self.change_once(|| retry_after_commit(self.fs(), run))
    }

    /// Calls `run` like [`Writer::change`], but only once. The caller may hold locks of inodes.
    fn change_once<R>(&self, run: impl FnOnce() -> Result<R>) -> Result<R> {
        let done = run();
        if let Err(error) = &done {
            self.inodes.handle_damage(error);
        }
        done
    }
}

/// The kind of file that [`Volume::make`](crate::Volume::make) creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make<'a> {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// The target of the link.
        target: &'a [u8],
    },
    /// Any other type, as for mknod(2).
    Node {
        /// The type.
        kind: FileKind,
        /// The device number, for devices.
        device: Option<DeviceNumber>,
    },
}

impl Make<'_> {
    /// A regular file.
    pub const FILE: Self = Self::Node {
        kind: FileKind::Regular,
        device: None,
    };

    /// Returns the type of the new file.
    fn kind(self) -> FileKind {
        match self {
            Self::Node { kind, .. } => kind,
            Self::Directory => FileKind::Directory,
            Self::Symlink { .. } => FileKind::Symlink,
        }
    }
}

/// Initial attributes of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Permissions and set-id bits: the lower 12 bits of the mode.
    pub permissions: u16,
    /// Permissions that are removed if the directory has no default access control list.
    pub umask: u16,
    /// The owner.
    pub uid: u32,
    /// The owning group, unless the directory's set-group-id bit determines another.
    pub gid: u32,
}

/// Attributes that chmod(2), chown(2), truncate(2) and utimensat(2) set. `None` means no change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permissions and set-id bits.
    pub permissions: Option<u16>,
    /// The owner.
    pub uid: Option<u32>,
    /// The owning group.
    pub gid: Option<u32>,
    /// The size in bytes.
    pub size_bytes: Option<u64>,
    /// The time of the last access.
    pub atime: Option<SetTime>,
    /// The time of the last change of the content.
    pub mtime: Option<SetTime>,
    /// The time of the last change of the inode, for callers that maintain it themselves; otherwise
    /// the current time.
    pub ctime: Option<Timestamp>,
    /// The caller's rights, which decide about the set-id bits when the owner or the size changes.
    pub by: ChangedBy,
}

/// The rights of the process that changes a file, as far as the set-id bits depend on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangedBy {
    /// The process may set these bits (`CAP_FSETID`): they are kept.
    #[default]
    Privileged,
    /// A member of the file's group: the set-group-id bit is kept if the group cannot execute the
    /// file, because then the bit does not make it run as the group.
    GroupMember,
    /// Any other process: both bits are removed.
    Other,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The current time.
    Now,
    /// This time.
    To(Timestamp),
}

bitflags! {
    /// How rename(2) treats the file that has the new name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// The new name must not exist.
        const NOREPLACE = 1;
        /// The file with the new name gets the old name.
        const EXCHANGE = 2;
        /// A whiteout (a character device 0:0) gets the old name.
        const WHITEOUT = 4;
    }
}

/// Operations of fallocate(2) on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocates blocks for holes.
    Allocate {
        /// Whether the file's size is kept.
        keep_size: bool,
    },
    /// Makes a hole. The size is kept.
    PunchHole,
    /// Makes the range read as zeros, and allocates it.
    ZeroRange {
        /// Whether the file's size is kept.
        keep_size: bool,
    },
    /// Removes the range; the following content moves towards the start.
    Collapse,
    /// Inserts a hole; the following content moves towards the end.
    Insert,
}
