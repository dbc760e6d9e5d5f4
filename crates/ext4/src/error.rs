//! The errors of file-system operations, and the errno of each.

use crate::ondisk::Damage;
use crate::{FsBlock, GroupNo, Ino};

/// The result of a file-system operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a failed file-system operation, which says what failed and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device failed. Errno: `EIO`.
    #[error(transparent)]
    Device(#[from] larder_block::Error),
    /// The device failed to read a structure of the file system. Errno: `EIO`.
    #[error("{place}: {source}")]
    Unreadable {
        /// The structure that could not be read.
        place: Place,
        /// The device's error.
        source: larder_block::Error,
    },
    /// The superblock's magic number is wrong. Errno: `EINVAL`.
    #[error("not an ext2, ext3 or ext4 file system: no magic number in the superblock")]
    NotExt,
    /// The file system has an incompatible feature that this version does not support. Errno: `EOPNOTSUPP`.
    #[error("unsupported feature: {0}")]
    UnsupportedFeature(String),
    /// Metadata contradicts itself, or does not match its checksum. Errno: `EUCLEAN`.
    #[error("{0}")]
    Corrupt(#[from] Corrupt),
    /// The inode is free: deleted, or never used. Errno: `ESTALE`.
    #[error("inode {0}: not in use")]
    StaleInode(Ino),
    /// The blocks of an inode were requested, but the content is stored in the inode itself. Errno: `EIO`.
    #[error("inode {0}: content is stored in the inode, not in blocks")]
    InlineData(Ino),
    /// The inode's content is encrypted. Errno: `ENOKEY`.
    #[error("inode {0}: content is encrypted, which is not supported")]
    Encrypted(Ino),
    /// The directory ignores case. Errno: `EOPNOTSUPP`.
    #[error("inode {0}: lookup in a case-insensitive directory is not supported")]
    Casefolded(Ino),
    /// The inode of a lookup or listing is not a directory. Errno: `ENOTDIR`.
    #[error("inode {0}: not a directory")]
    NotDirectory(Ino),
    /// The target of an inode was requested, but the inode is not a symbolic link. Errno: `EINVAL`.
    #[error("inode {0}: not a symbolic link")]
    NotSymlink(Ino),
    /// The journal is on another device and needs recovery. Errno: `EOPNOTSUPP`.
    #[error(
        "the journal is on another device and needs recovery; run e2fsck -j with that device first"
    )]
    ExternalJournal,
    /// The file system cannot be written to: it was opened for reading, or became read-only after
    /// an error. Errno: `EROFS`.
    #[error("the file system is read-only{}", reason_suffix(.0.as_ref()))]
    ReadOnly(Option<std::sync::Arc<str>>),
    /// Writing failed earlier, for the given reason, so data cannot be made durable. Errno: `EIO`.
    #[error("the journal was aborted: {0}")]
    Aborted(std::sync::Arc<str>),
    /// An internal inconsistency of Larder. Nothing more is written. Errno: `EIO`.
    #[error("internal error: {0}; the image has its last committed state; please report this")]
    Invariant(&'static str),
    /// A block is not in memory, and the thread must not wait for the block: a journal handle is open, or the
    /// thread is in a [`MemoryOnly`](crate::MemoryOnly) part. If a handle is open, the operation is repeated
    /// after the block was read, so the caller of the operation does not receive this error. Errno: `EAGAIN`.
    #[error("block {0} is not in memory")]
    NotInMemory(FsBlock),
    /// The operation would have to wait, but the thread is in a [`MemoryOnly`](crate::MemoryOnly) part. The
    /// operation has changed nothing. Errno: `EAGAIN`.
    #[error("the operation would wait")]
    WouldWait,
    /// No free blocks. Errno: `ENOSPC`.
    #[error("no space left in the file system")]
    NoSpace,
    /// No free inodes. Errno: `ENOSPC`.
    #[error("no inodes left in the file system")]
    NoInodes,
    /// An operation changes more blocks than its handle or a transaction may change. Errno: `ENOSPC`.
    #[error("the journal is too small for this operation")]
    HandleTooLarge,
    /// The file system cannot be opened for writing, for the given reason. Errno: `EROFS`.
    #[error("cannot be mounted for writing: {0}; mount it read-only (-o ro)")]
    NotWritable(String),
    /// The file system is, or may be, in use by another host or by e2fsck. Errno: `EBUSY`.
    #[error("{0}")]
    InUse(String),
    /// An entry of that name already exists. Errno: `EEXIST`.
    #[error("inode {0}: the name already exists")]
    Exists(Ino),
    /// A directory that is to be removed is not empty. Errno: `ENOTEMPTY`.
    #[error("inode {0}: directory is not empty")]
    NotEmpty(Ino),
    /// The inode would have too many hard links or subdirectories. Errno: `EMLINK`.
    #[error("inode {0}: too many links")]
    TooManyLinks(Ino),
    /// A name is longer than 255 bytes. Errno: `ENAMETOOLONG`.
    #[error("inode {0}: file name is too long")]
    NameTooLong(Ino),
    /// The target of a symbolic link is longer than this number of bytes. Errno: `ENAMETOOLONG`.
    #[error("target of a symbolic link is longer than {0} bytes")]
    TargetTooLong(usize),
    /// A file would grow past what its mapping can hold. Errno: `EFBIG`.
    #[error("inode {0}: file is too large")]
    FileTooLarge(Ino),
    /// The inode has no attribute of that name. Errno: `ENODATA`.
    #[error("inode {0}: no such extended attribute")]
    NoAttribute(Ino),
    /// The name of an extended attribute is empty or longer than 255 bytes. Errno: `ERANGE`.
    #[error("inode {0}: the name of an extended attribute must have 1 to 255 bytes")]
    AttributeName(Ino),
    /// An attribute does not fit into the space for attributes, or its value is too long. Errno: `ENOSPC`.
    #[error("inode {0}: no space for the extended attribute")]
    AttributeTooLarge(Ino),
    /// The operation does not apply to this file, or is not supported on it. Errno: `EOPNOTSUPP`.
    #[error("inode {0}: not supported: {1}")]
    NotSupported(Ino, &'static str),
    /// The device of the file system does not support the operation. Errno: `EOPNOTSUPP`.
    #[error("the image's storage does not support this: {0}")]
    DeviceCannot(&'static str),
    /// An argument is invalid. Errno: `EINVAL`.
    #[error("inode {0}: {1}")]
    Invalid(Ino, &'static str),
}

fn reason_suffix(reason: Option<&std::sync::Arc<str>>) -> String {
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}

/// The place and the kind of damage in a structure. Errno: `EUCLEAN`.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Corrupt {
    /// The place of the damage.
    pub place: Place,
    /// A short description of the damage.
    pub what: &'static str,
}

/// The place where damage was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The superblock.
    Superblock,
    /// The descriptor of a block group.
    Group(GroupNo),
    /// An inode, or a structure that belongs to it.
    Inode(Ino),
    /// A block, and the inode that it belongs to.
    Block(FsBlock, Ino),
    /// A block of the journal, counted from the journal's start.
    Journal(u32),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Superblock => write!(f, "superblock"),
            Self::Group(group) => write!(f, "block group {group}"),
            Self::Inode(ino) => write!(f, "inode {ino}"),
            Self::Block(block, ino) => write!(f, "block {block} of inode {ino}"),
            Self::Journal(block) => write!(f, "journal block {block}"),
        }
    }
}

impl Place {
    /// Returns the error for damage `what` at this place.
    #[must_use]
    pub fn corrupt(self, what: &'static str) -> Error {
        Error::Corrupt(Corrupt { place: self, what })
    }

    /// Returns the error for damage `what` at this place if `holds` is false.
    pub(crate) fn ensure(self, holds: bool, what: Damage) -> Result<()> {
        if holds {
            Ok(())
        } else {
            Err(self.corrupt(what))
        }
    }
}

/// Converts damage that the codec found to an error that names the place of the decoded bytes.
pub(crate) trait DamageAt<T> {
    /// Returns the value, or the damage as an error at `place`.
    fn at(self, place: Place) -> Result<T>;
}

impl<T> DamageAt<T> for Result<T, Damage> {
    fn at(self, place: Place) -> Result<T> {
        self.map_err(|what| place.corrupt(what))
    }
}
