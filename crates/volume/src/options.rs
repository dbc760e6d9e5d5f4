//! Options for opening a volume.

use crate::clock::{Clock, SystemClock};
use larder_cache::mbcache::Variant;
use larder_cache::tables::Tables;
use larder_cache::tape::Tape;
use larder_ext4::ondisk::superblock::Superblock;
use std::sync::Arc;
use std::time::Duration;

/// Options of [`Volume::open`](crate::Volume::open).
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the options are independent")]
#[non_exhaustive]
pub struct OpenOptions {
    /// The offset of the file system in the file or device, in bytes. Default: 0.
    pub offset_bytes: u64,
    /// The memory that all caches share, in bytes. Default: 256 MiB.
    pub cache_size_bytes: u64,
    /// The name of the readahead policy, one of [`PolicyName::ALL`](crate::PolicyName::ALL): `off`,
    /// `legacy` (as in Linux 2.6.20), `ondemand` (as in Linux 2.6.23) or `modern` (as in Linux
    /// 6.18). Default: `ondemand`.
    pub readahead: String,
    /// The maximum size of a readahead window, in bytes. 0 disables readahead. Default: 1 MiB
    /// (Linux: 128 KiB).
    pub readahead_max_bytes: u64,
    /// Whether to apply the readahead policy as the kernel that it models did. By default, Larder differs
    /// in two ways: windows are limited so that the windows of all streams fit into the cache, and
    /// concurrent reads through one open file share its readahead state. With `true`, only
    /// `readahead_max_bytes` limits a window, and with `legacy` and `ondemand`, each read works on a
    /// copy of the state and stores the copy at its end. Default: false.
    pub readahead_exact: bool,
    /// Whether to bypass the page cache of the host (`O_DIRECT`). The host then does not cache data
    /// a second time, and does not read ahead. Default: false.
    pub direct_device: bool,
    /// The time after which a thread stops waiting for the device, and its operation fails with
    /// `EIO`. `None` means that threads wait as long as the host does. Default: `None`.
    ///
    /// For a disk, Linux itself gives up after at most 3 minutes: 30 seconds for a command (SCSI and
    /// `NVMe`), and for SCSI five more attempts. The option is useful where the host waits without limit, such
    /// as a network file system or a process that serves the device. With it, each read is a request of its own
    /// instead of a system call of its reader, which takes longer.
    ///
    /// The limit applies to all reads, to write-back and checkpoints with `direct_device`, and to
    /// the end of the volume, which waits for reads ahead. It does not apply to syncs and to writes
    /// that the host caches: a slow disk may rightly need longer for them. It does not apply to a
    /// device that has only blocking calls ([`BackEnd::Calls`](larder_block::BackEnd::Calls)).
    pub device_timeout: Option<Duration>,
    /// Whether to ignore a journal that needs recovery. No effect with `read_write`. Default:
    /// false.
    pub noload: bool,
    /// Whether to open the image for writing, with an exclusive lock. Default: false.
    pub read_write: bool,
    /// The time between commits of the journal, in seconds. 0 means the default. Default: 5, as in
    /// Linux.
    pub commit_seconds: u32,
    /// The order in which content and metadata are written, which decides what a file can contain
    /// after a crash. Default: [`DataMode::Ordered`].
    pub data: DataMode,
    /// The action when an operation that changes the volume detects corruption. Default: the value
    /// in the superblock.
    pub errors: Option<ErrorsMode>,
    /// Whether a background thread writes back and commits, periodically and when too many blocks
    /// are dirty. If false, only the operations of callers write back and commit. Default: true.
    pub background: bool,
    /// The implementation of the cache that finds equal extended attributes, so that files can
    /// share them on the image. Default: [`Variant::default`].
    pub mbcache: Variant,
    /// The tables of the caches: their hash functions, their sizes, and when the dentry cache
    /// shrinks. Default: [`Tables::LARDER`].
    pub tables: Tables,
    /// The clock for the timestamps of changes. Default: the system clock.
    pub clock: Arc<dyn Clock>,
    /// The tape, which is a recorder of cache events. It receives every lookup, insertion and
    /// removal of pages, buffers, dentries and inodes since the open. Default: none.
    pub tape: Option<Arc<dyn Tape>>,
}

/// The order in which content and metadata are written, which decides what a file can contain after
/// a crash (`data=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataMode {
    /// Content is written to the device before the metadata that refers to the content is
    /// committed.
    #[default]
    Ordered,
    /// Content may be written after the metadata. Larder never uses this freedom, so the mode is
    /// the same as `Ordered`.
    Writeback,
    /// Content is written through the journal, like metadata.
    Journal,
}

/// The action when an operation that changes a volume detects corruption (`errors=`). In every
/// mode, the operation fails. The time and, if known, the block and the inode are recorded in the
/// superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorsMode {
    /// Only the operation fails.
    Continue,
    /// The volume becomes read-only. As in the kernel, the journal is aborted, so uncommitted
    /// changes are lost.
    RemountReadOnly,
    /// The same as [`ErrorsMode::RemountReadOnly`]. The kernel panics in this mode.
    Abort,
}

impl ErrorsMode {
    /// Returns the mode that the superblock specifies. As in the kernel, an unknown value means
    /// [`ErrorsMode::RemountReadOnly`].
    pub(crate) fn of_superblock(superblock: &Superblock) -> Self {
        match superblock.errors {
            1 => Self::Continue,
            3 => Self::Abort,
            _ => Self::RemountReadOnly,
        }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            offset_bytes: 0,
            cache_size_bytes: 256 << 20,
            readahead: "ondemand".to_owned(),
            readahead_max_bytes: 1 << 20,
            readahead_exact: false,
            direct_device: false,
            device_timeout: None,
            noload: false,
            read_write: false,
            commit_seconds: 5,
            data: DataMode::Ordered,
            errors: None,
            background: true,
            mbcache: Variant::default(),
            tables: Tables::LARDER,
            clock: Arc::new(SystemClock),
            tape: None,
        }
    }
}
