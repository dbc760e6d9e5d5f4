//! Metadata of files, and information about a volume.

use larder_ext4::journal::{Recovery, RecoveryCounts};
use larder_ext4::ondisk::features::{Compat, Incompat, RoCompat};
use larder_ext4::ondisk::superblock::{State, Superblock};
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{FileKind, Filesystem, Ino, Inode, Statfs};

/// The attributes of a file that stat(2) reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// Inode number.
    pub ino: Ino,
    /// Generation of the inode number.
    pub generation: u32,
    /// Type.
    pub kind: FileKind,
    /// Permission, set-id and sticky bits (the low 12 bits of the mode).
    pub permissions: u16,
    /// Hard links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Major number, for device files.
    pub rdev_major: u32,
    /// Minor number, for device files.
    pub rdev_minor: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Space used, in units of 512 bytes.
    pub blocks_512: u64,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of the content.
    pub modified: Timestamp,
    /// Last change of the inode.
    pub changed: Timestamp,
    /// Creation, if the image's inodes have room for it.
    pub created: Option<Timestamp>,
    /// Flags as in `FS_IOC_GETFLAGS`.
    pub flags: u32,
    /// Project, for project quota.
    pub project_id: u32,
}

impl Metadata {
    pub(crate) fn new(inode: &Inode, block_size_bytes: u32) -> Self {
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
    /// The name: any bytes except `/` and NUL.
    pub name: &'a [u8],
    /// The inode that the name refers to.
    pub ino: Ino,
    /// The file's type, if the directory records it.
    pub kind: Option<FileKind>,
    /// Cookie for [`Volume::read_dir`](crate::Volume::read_dir) to continue after this entry.
    pub next_cookie: u64,
}

/// The state of the journal when the volume was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum JournalState {
    /// The image has no journal.
    None,
    /// The journal is clean: it needed no recovery.
    Clean,
    /// The journal is on another device, and clean.
    External,
    /// The journal needed recovery. Its blocks are read from memory in place of those on the image.
    Recovered {
        /// Transactions replayed.
        transactions: u32,
        /// Blocks replayed.
        blocks: u64,
        /// Fast commits replayed.
        fast_commits: u32,
    },
    /// The journal needs recovery and was ignored (`noload`).
    Ignored,
}

impl JournalState {
    /// Returns the state for a file system that was opened for writing, where recovery has written
    /// the blocks home.
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

/// Information about a volume, from its superblock.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Info {
    /// The kind of file system, by its features: `ext2`, `ext3` or `ext4`.
    pub kind: &'static str,
    /// Label; empty if none.
    pub label: String,
    /// UUID, in the usual form.
    pub uuid: String,
    /// The last mount point; empty if unknown.
    pub last_mounted: String,
    /// The features, by the names that mke2fs uses.
    pub features: Vec<String>,
    /// Block size in bytes.
    pub block_size_bytes: u32,
    /// Allocation unit in bytes: larger than a block with bigalloc.
    pub cluster_size_bytes: u32,
    /// Inode size in bytes.
    pub inode_size_bytes: u32,
    /// Total blocks.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Total inodes.
    pub inodes: u32,
    /// Free inodes.
    pub inodes_free: u32,
    /// Whether the file system was unmounted cleanly and no error is recorded.
    pub clean: bool,
    /// Bytes missing at the end of the image, if it is truncated.
    pub missing_bytes: u64,
    /// The damage of the primary superblock when the volume was opened, and the backup that was
    /// used instead.
    pub superblock_repair: Option<String>,
    /// The journal.
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

/// Returns the kind of file system as blkid reports it: a feature that only ext4 has means ext4,
/// and otherwise a journal means ext3.
fn kind(sb: &Superblock) -> &'static str {
    let ext3_incompat = Incompat::FILETYPE | Incompat::RECOVER | Incompat::META_BG;
    let ext3_ro_compat = RoCompat::SPARSE_SUPER | RoCompat::LARGE_FILE | RoCompat::BTREE_DIR;
    if !ext3_incompat.contains(sb.incompat) || !ext3_ro_compat.contains(sb.ro_compat) {
        "ext4"
    } else if sb.compat.contains(Compat::HAS_JOURNAL) {
        "ext3"
    } else {
        "ext2"
    }
}
