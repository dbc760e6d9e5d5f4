//! Writing: the operations that change an image.
//!
//! Model: the kernel's VFS and ext4 above the journal: an operation takes the locks of the inodes
//! that it concerns, opens a handle, changes metadata, and stops the handle. Content goes to
//! the page cache, and from there to the device when it is written back; only then are blocks
//! allocated (delayed allocation), and only after the data is on the device are they mapped, so
//! that no commit exposes what was there before.

mod allocate;
mod content;
mod cut;
mod delayed;
mod inline;
mod link;
mod names;
mod orphans;
mod pages;
mod past_cache;
mod rename;
mod settings;
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

/// Changes the content of a volume's files, and deletes them. What becomes dirty is in the page
/// cache, where readers find it.
#[derive(Debug)]
pub(crate) struct Writer {
    inodes: Arc<Inodes>,
    /// Fills pages of which a part is changed.
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

    /// Where dirty pages go.
    pub(crate) fn write_back(&self) -> &Arc<WriteBack> {
        &self.write_back
    }

    fn fs(&self) -> &Filesystem {
        &self.inodes.fs
    }

    /// What changes made now are stamped with.
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Says that content and inode are changed now.
    fn stamp(&self, inode: &mut Inode) {
        let now = self.now();
        inode.set_mtime(now);
        inode.set_ctime(now);
    }

    /// Does `run`, as [`retry_after_commit`] does. It must hold no lock.
    fn change<R>(&self, run: impl FnMut() -> Result<R>) -> Result<R> {
        self.change_once(|| retry_after_commit(self.fs(), run))
    }

    /// As [`Writer::change`], for what cannot be done again. Locks of inodes may be held.
    fn change_once<R>(&self, run: impl FnOnce() -> Result<R>) -> Result<R> {
        let done = run();
        if let Err(error) = &done {
            self.inodes.handle_damage(error);
        }
        done
    }
}

/// What [`Volume::make`](crate::Volume::make) makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make<'a> {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: &'a [u8],
    },
    /// Anything else, as mknod(2).
    Node {
        /// The type.
        kind: FileKind,
        /// Which device, for devices.
        device: Option<DeviceNumber>,
    },
}

impl Make<'_> {
    /// A regular file.
    pub const FILE: Self = Self::Node {
        kind: FileKind::Regular,
        device: None,
    };

    /// The type of what is made.
    fn kind(self) -> FileKind {
        match self {
            Self::Node { kind, .. } => kind,
            Self::Directory => FileKind::Directory,
            Self::Symlink { .. } => FileKind::Symlink,
        }
    }
}

/// What a new file starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Permissions and set-id bits: the lower 12 bits of the mode.
    pub permissions: u16,
    /// Permissions that are taken away where the directory has no default access control list.
    pub umask: u16,
    /// The owner.
    pub uid: u32,
    /// The owning group, unless the directory's set-group-id bit gives it another.
    pub gid: u32,
}

/// What chmod(2), chown(2), truncate(2) and utimensat(2) set: what is `None` stays.
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
    /// The time of the last change of the inode, for those who keep it themselves; else now.
    pub ctime: Option<Timestamp>,
    /// Who sets them, where that decides on the set-id bits: with a new owner or size.
    pub by: ChangedBy,
}

/// Who changes a file, as far as its set-id bits depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangedBy {
    /// Somebody who may set these bits (`CAP_FSETID`): they stay.
    #[default]
    Privileged,
    /// A member of the file's group: the set-group-id bit stays where the group cannot execute the
    /// file, so that the bit does not make it run as the group.
    GroupMember,
    /// Anybody else: both go.
    Other,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// This one.
    To(Timestamp),
}

bitflags! {
    /// How rename(2) treats what the new name leads to.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// It must not exist.
        const NOREPLACE = 1;
        /// It gets the old name.
        const EXCHANGE = 2;
        /// A whiteout (a character device 0:0) gets the old name.
        const WHITEOUT = 4;
    }
}

/// What fallocate(2) does with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocates what are holes.
    Allocate {
        /// The file's size stays.
        keep_size: bool,
    },
    /// Makes a hole. The size stays.
    PunchHole,
    /// Makes it read as zeros, allocated.
    ZeroRange {
        /// The file's size stays.
        keep_size: bool,
    },
    /// Takes it out; what follows moves up.
    Collapse,
    /// Opens a hole; what follows moves down.
    Insert,
}
