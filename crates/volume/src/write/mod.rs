//! The operations that change an image.
//!
//! Model: the kernel's VFS and ext4 above the journal. An operation locks the inodes that it uses,
//! opens a handle, changes metadata, and stops the handle. Content that is stored in the inode
//! (inline data) is changed together with the inode, in one handle.
//!
//! If the content is stored in blocks, the content of a large write is written directly to the
//! device. Other content is written to the page cache first. Write-back then allocates its blocks
//! (delayed allocation) and writes it to the device. In both cases, blocks are mapped only after
//! their content is on the device. With `data=journal`, all such content is written to the page
//! cache first. Write-back does not write it to the device: the handle that maps the blocks journals
//! it. Therefore no commit exposes the previous contents of a block.

mod allocate;
mod buffers;
mod content;
pub(crate) mod content_batch;
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
mod writing;

use crate::fill::PageFiller;
use crate::live::Inodes;
use crate::write_back::WriteBack;
use crate::write_back::retry::retry_after_commit;
use crate::{Clock, Result, Timestamp};
use bitflags::bitflags;
pub use buffers::ContentBuffers;
pub use larder_ext4::{DeviceNumber, FileKind, XattrMode};
use larder_ext4::{Filesystem, Inode};
use std::sync::Arc;
use std::time::SystemTime;

/// Changes the content of files, and deletes files. Dirty content is in the page cache, where reads
/// find it.
#[derive(Debug)]
pub(crate) struct Writer {
    inodes: Arc<Inodes>,
    /// Fills a page from the device before a part of the page is changed.
    filler: PageFiller,
    write_back: Arc<WriteBack>,
    clock: Arc<dyn Clock>,
}

impl Writer {
    pub(crate) fn inodes(&self) -> &Arc<Inodes> {
        &self.inodes
    }

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

    /// Returns the object that writes back dirty pages.
    pub(crate) fn write_back(&self) -> &Arc<WriteBack> {
        &self.write_back
    }

    fn fs(&self) -> &Filesystem {
        &self.inodes.fs
    }

    /// Returns the current time, for timestamps.
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the modification and change times of `inode` to the current time.
    fn stamp(&self, inode: &mut Inode) {
        let now = self.now();
        inode.set_mtime(now);
        inode.set_ctime(now);
    }

    /// Calls `run` for an operation that changes the image. If space runs out, retries as
    /// [`retry_after_commit`] does. If `run` reports corruption, acts as `errors=` specifies. The
    /// caller must hold no locks.
    fn change<R>(&self, run: impl FnMut() -> Result<R>) -> Result<R> {
        self.change_once(|| retry_after_commit(self.fs(), run))
    }

    /// Calls `run` once, for an operation that changes the image. If `run` reports corruption, acts
    /// as `errors=` specifies. The caller may hold locks of inodes.
    pub(crate) fn change_once<R>(&self, run: impl FnOnce() -> Result<R>) -> Result<R> {
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
    /// A file of any other type, as mknod(2) creates it.
    Node {
        /// The type of the file.
        kind: FileKind,
        /// The device number of a device file, otherwise `None`.
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

/// The initial attributes of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// The permission, set-id and sticky bits: the low 12 bits of the mode. Default: 0644.
    pub permissions: u16,
    /// The permission bits to clear in `permissions`. Ignored if the directory has a default access
    /// control list. Default: 0.
    pub umask: u16,
    /// The owner. Default: 0.
    pub uid: u32,
    /// The group ID. Ignored if the set-group-id bit of the directory is set: the file then belongs
    /// to the group of the directory. Default: 0.
    pub gid: u32,
}

impl Default for NewFile {
    fn default() -> Self {
        Self {
            permissions: 0o644,
            umask: 0,
            uid: 0,
            gid: 0,
        }
    }
}

impl NewFile {
    /// Returns the default attributes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `permissions`.
    #[must_use]
    pub fn permissions(self, permissions: u16) -> Self {
        Self {
            permissions,
            ..self
        }
    }

    /// Sets `umask`.
    #[must_use]
    pub fn umask(self, umask: u16) -> Self {
        Self { umask, ..self }
    }

    /// Sets `uid` and `gid`.
    #[must_use]
    pub fn owner(self, uid: u32, gid: u32) -> Self {
        Self { uid, gid, ..self }
    }
}

/// The times of a file that utimensat(2) sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTimes {
    /// The time of the last access.
    pub accessed: Timestamp,
    /// The time of the last change of the content.
    pub modified: Timestamp,
}

/// A change of the attributes that chmod(2), chown(2), truncate(2) and utimensat(2) set. A field
/// that is `None` leaves its attribute unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// The permission, set-id and sticky bits.
    pub permissions: Option<u16>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group ID.
    pub gid: Option<u32>,
    /// The size in bytes.
    pub size_bytes: Option<u64>,
    /// The time of the last access.
    pub atime: Option<SetTime>,
    /// The time of the last change of the content.
    pub mtime: Option<SetTime>,
    /// The time of the last change of the inode, for callers that maintain this time themselves.
    /// With `None`, any change of attributes sets it to the current time.
    pub ctime: Option<Timestamp>,
    /// The rights of the process that makes the change. They determine which set-id bits are kept
    /// when the owner or the size changes.
    pub by: ChangedBy,
}

/// The rights of the process that changes a file. They determine which set-id bits the change
/// removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangedBy {
    /// The process has `CAP_FSETID`. A change of the content or size keeps both set-id bits. A
    /// change of the owner has the same effect as for `GroupMember`.
    #[default]
    Privileged,
    /// The process is in the group of the file. The set-user-id bit is removed. The set-group-id
    /// bit is kept only if the group cannot execute the file, because the bit then does not make
    /// the file run with the rights of the group.
    GroupMember,
    /// Any other process. Both set-id bits are removed.
    Other,
}

/// A new value for a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The current time.
    Now,
    /// The given time.
    To(Timestamp),
}

impl From<Timestamp> for SetTime {
    fn from(time: Timestamp) -> Self {
        Self::To(time)
    }
}

impl From<SystemTime> for SetTime {
    fn from(time: SystemTime) -> Self {
        Self::To(time.into())
    }
}

bitflags! {
    /// Flags of rename(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// The new name must not exist.
        const NOREPLACE = 1;
        /// Exchange both names: the file with the new name receives the old name.
        const EXCHANGE = 2;
        /// Create a whiteout (a character device 0:0, which hides the name in an overlay) with the
        /// old name.
        const WHITEOUT = 4;
    }
}

/// An operation of fallocate(2) on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocates blocks for holes.
    Allocate {
        /// Whether the size of the file is kept.
        keep_size: bool,
    },
    /// Makes the range a hole. The size of the file does not change.
    PunchHole,
    /// Makes the range read as zeros, and allocates blocks for its holes.
    ZeroRange {
        /// Whether the size of the file is kept.
        keep_size: bool,
    },
    /// Removes the range. The content after the range moves to the start of the range.
    Collapse,
    /// Inserts a hole at the range. The content that begins at the start of the range moves to the
    /// end of the range.
    Insert,
}
