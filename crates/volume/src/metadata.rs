//! The metadata of files and directory entries, and information about a volume.

use larder_ext4::journal::{Recovery, RecoveryCounts};
use larder_ext4::ondisk::features::{Compat, Incompat, RoCompat};
use larder_ext4::ondisk::superblock::{State, Superblock};
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{FileKind, Filesystem, Ino, Inode, Statfs};
use std::fmt;

/// The attributes of a file: those that stat(2) reports, and the generation, the creation time, the
/// flags and the project ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The inode number.
    pub ino: Ino,
    /// The generation, which distinguishes successive files with the same inode number.
    pub generation: u32,
    /// The file type.
    pub kind: FileKind,
    /// The permission, set-id and sticky bits (the low 12 bits of the mode).
    pub permissions: u16,
    /// The number of hard links.
    pub links: u32,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The major number of a device file, or 0.
    pub rdev_major: u32,
    /// The minor number of a device file, or 0.
    pub rdev_minor: u32,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The allocated space, in units of 512 bytes.
    pub blocks_512: u64,
    /// The time of the last access.
    pub accessed: Timestamp,
    /// The time of the last change of the content.
    pub modified: Timestamp,
    /// The time of the last change of the inode.
    pub changed: Timestamp,
    /// The time of creation, or `None` if the inodes of the image are too small to store it.
    pub created: Option<Timestamp>,
    /// The inode flags, as `FS_IOC_GETFLAGS` returns them.
    pub flags: u32,
    /// The project ID, for project quotas.
    pub project_id: u32,
}

impl Metadata {
    /// Returns the metadata of an empty file with one name, for tests of programs. All other
    /// fields are zero.
    #[must_use]
    pub fn new(ino: Ino, kind: FileKind) -> Self {
        Self {
            ino,
            generation: 0,
            kind,
            permissions: 0,
            links: 1,
            uid: 0,
            gid: 0,
            rdev_major: 0,
            rdev_minor: 0,
            size_bytes: 0,
            blocks_512: 0,
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            created: None,
            flags: 0,
            project_id: 0,
        }
    }

    /// Returns whether the file is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Returns whether the file is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::Regular
    }

    /// Returns whether the file is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.kind == FileKind::Symlink
    }

    pub(crate) fn of_inode(inode: &Inode, block_size_bytes: u32) -> Self {
        let device = inode.device();
        Self {
            ino: inode.ino(),
            generation: inode.generation(),
            kind: inode.kind(),
            permissions: inode.mode() & 0o7777,
            links: inode.links().into(),
            uid: inode.uid(),
            gid: inode.gid(),
            rdev_major: device.map_or(0, |device| device.major),
            rdev_minor: device.map_or(0, |device| device.minor),
            size_bytes: inode.size_bytes(),
            blocks_512: inode.blocks_512(block_size_bytes),
            accessed: inode.atime(),
            modified: inode.mtime(),
            changed: inode.ctime(),
            created: inode.crtime(),
            flags: inode.flags().bits(),
            project_id: inode.project_id(),
        }
    }
}

/// An entry of a directory listing.
#[derive(Clone, Copy, Debug)]
pub struct DirEntry<'a> {
    /// The name. It can contain any bytes except `/` and NUL.
    pub name: &'a [u8],
    /// The inode that the name refers to.
    pub ino: Ino,
    /// The type of the file, or `None` if the directory does not record types.
    pub kind: Option<FileKind>,
    /// The cookie with which [`Volume::read_dir`](crate::Volume::read_dir) continues after this
    /// entry.
    pub next_cookie: u64,
}

/// The state of the journal when the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum JournalState {
    /// The image has no journal.
    #[default]
    None,
    /// The journal was clean: it needed no recovery.
    Clean,
    /// The journal is on another device, and was clean.
    External,
    /// The journal needed recovery and was replayed: in memory, or on the image if the volume was
    /// opened for writing.
    Recovered {
        /// The number of replayed transactions.
        transactions: u32,
        /// The number of replayed blocks.
        blocks: u64,
        /// The number of replayed fast commits.
        fast_commits: u32,
    },
    /// The journal needs recovery, but was ignored because of `noload`.
    Ignored,
}

impl JournalState {
    /// Returns the journal state of a file system that was opened for writing. If the journal was
    /// replayed, the replayed blocks are at their final locations on the image.
    pub(crate) fn of_writable(fs: &Filesystem) -> Self {
        let recovered = fs.recovered();
        if recovered.transactions > 0 || recovered.fast_commits > 0 {
            return Self::recovered(&recovered);
        }
        if fs.superblock().compat.contains(Compat::HAS_JOURNAL) {
            Self::Clean
        } else {
            Self::None
        }
    }

    pub(crate) fn new(recovery: &Recovery) -> Self {
        use larder_ext4::journal::JournalState as State;
        match recovery.state {
            State::Clean => Self::Clean,
            State::External => Self::External,
            State::Recovered => Self::recovered(&recovery.counts),
            _ => Self::None,
        }
    }

    fn recovered(counts: &RecoveryCounts) -> Self {
        Self::Recovered {
            transactions: counts.transactions,
            blocks: counts.redirected_blocks,
            fast_commits: counts.fast_commits,
        }
    }
}

/// The kind of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FsKind {
    /// A file system without a journal and without features of ext3 or ext4.
    Ext2,
    /// A file system with a journal and without features of ext4.
    Ext3,
    /// A file system with at least one feature that exists only in ext4.
    #[default]
    Ext4,
}

impl FsKind {
    /// Returns the name, as blkid prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
        }
    }
}

impl fmt::Display for FsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Information about a volume, mostly from its superblock.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Info {
    /// The kind of file system, derived from its features.
    pub kind: FsKind,
    /// The label, or an empty string.
    pub label: String,
    /// The UUID, as hexadecimal digits with hyphens.
    pub uuid: String,
    /// The last mount point, or an empty string if it is unknown.
    pub last_mounted: String,
    /// The names of the features, as mke2fs spells them.
    pub features: Vec<String>,
    /// The block size in bytes.
    pub block_size_bytes: u32,
    /// The size of an allocation unit in bytes. With `bigalloc`, it is larger than a block.
    pub cluster_size_bytes: u32,
    /// The inode size in bytes.
    pub inode_size_bytes: u32,
    /// The number of blocks.
    pub blocks: u64,
    /// The number of free blocks.
    pub blocks_free: u64,
    /// The number of inodes.
    pub inodes: u32,
    /// The number of free inodes.
    pub inodes_free: u32,
    /// Whether the file system was unmounted cleanly and no error is recorded.
    pub clean: bool,
    /// The number of bytes that are missing at the end of a truncated image, or 0.
    pub missing_bytes: u64,
    /// If the primary superblock was damaged when the volume was opened: the damage, and the backup
    /// that was used instead.
    pub superblock_repair: Option<String>,
    /// The state of the journal when the volume was opened.
    pub journal: JournalState,
}

impl Info {
    pub(crate) fn new(
        sb: &Superblock,
        free: &Statfs,
        journal: JournalState,
        device_size_bytes: u64,
    ) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            kind: kind(sb),
            label: text(&sb.label),
            uuid: sb.uuid.to_string(),
            last_mounted: text(&sb.last_mounted),
            features: sb
                .compat
                .names()
                .chain(sb.incompat.names())
                .chain(sb.ro_compat.names())
                .collect(),
            block_size_bytes: sb.block_size_bytes(),
            cluster_size_bytes: u32::try_from(sb.cluster_size_bytes()).unwrap_or(u32::MAX),
            inode_size_bytes: sb.inode_size_bytes.into(),
            blocks: sb.blocks_count,
            blocks_free: free.free_blocks,
            inodes: sb.inodes_count,
            inodes_free: u32::try_from(free.free_files).unwrap_or(u32::MAX),
            clean: sb.state.contains(State::VALID) && !sb.state.contains(State::ERROR),
            missing_bytes: sb.missing_bytes(device_size_bytes),
            superblock_repair: None,
            journal,
        }
    }
}

/// Returns the kind of file system as blkid reports it.
fn kind(sb: &Superblock) -> FsKind {
    let ext3_incompat = Incompat::FILETYPE | Incompat::RECOVER | Incompat::META_BG;
    let ext3_ro_compat = RoCompat::SPARSE_SUPER | RoCompat::LARGE_FILE | RoCompat::BTREE_DIR;
    if !ext3_incompat.contains(sb.incompat) || !ext3_ro_compat.contains(sb.ro_compat) {
        FsKind::Ext4
    } else if sb.compat.contains(Compat::HAS_JOURNAL) {
        FsKind::Ext3
    } else {
        FsKind::Ext2
    }
}
