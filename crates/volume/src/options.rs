//! Options for opening a volume.

use crate::clock::{Clock, SystemClock};
use larder_cache::mbcache::Variant;
use larder_cache::tables::Tables;
use larder_cache::tape::Tape;
use larder_ext4::ondisk::superblock::Superblock;
use std::sync::Arc;

/// Options of [`Volume::open`](crate::Volume::open).
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the options are independent")]
#[non_exhaustive]
pub struct OpenOptions {
    /// Offset of the file system in the file or device, in bytes. Default: 0.
    pub offset_bytes: u64,
    /// Memory that all caches share, in bytes. Default: 256 MiB.
    pub cache_size_bytes: u64,
    /// Readahead policy by name, one of [`PolicyName::ALL`](crate::PolicyName::ALL): `off`,
    /// `legacy`, `ondemand` or `modern`. Default: `ondemand`.
    pub readahead: String,
    /// The largest readahead window, in bytes; 0 disables readahead. Default: 1 MiB (Linux: 128
    /// KiB).
    pub readahead_max_bytes: u64,
    /// Readahead threads, at most [`OpenOptions::MAX_READAHEAD_THREADS`]; 0 disables readahead.
    /// Default: 4.
    pub readahead_threads: usize,
    /// Bypass the host's page cache (`O_DIRECT`): nothing is cached twice, and only the readahead
    /// policy reads ahead. Default: false.
    pub direct_device: bool,
    /// Ignore the journal, even if it needs recovery. Default: false.
    pub noload: bool,
    /// Open for writing, with an exclusive lock. Default: false.
    pub read_write: bool,
    /// Seconds between commits of the journal. Default: 5, as in Linux.
    pub commit_seconds: u32,
    /// Ordering of content and metadata in a crash. Default: [`DataMode::Ordered`].
    pub data: DataMode,
    /// Action when corruption is detected. Default: the value in the superblock.
    pub errors: Option<ErrorsMode>,
    /// Write back and commit in a background thread, depending on age and memory. If false, only
    /// the callers' own operations do this. Default: true.
    pub background: bool,
    /// The cache that finds equal attributes of another file, so that both share them. Default:
    /// [`Variant::default`].
    pub mbcache: Variant,
    /// The tables of the caches: hash functions, sizes, and how dentries are shrunk. Default:
    /// [`Tables::LARDER`].
    pub tables: Tables,
    /// The clock for the timestamps of changes. Default: the system clock.
    pub clock: Arc<dyn Clock>,
    /// The tape that receives every lookup, insertion and removal of pages, buffers, dentries and
    /// inodes, from the first on. Default: none.
    pub tape: Option<Arc<dyn Tape>>,
}

/// Ordering of content and metadata in a crash (`data=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataMode {
    /// Content is on the device before the metadata that refers to it is committed.
    #[default]
    Ordered,
    /// Content may be written later. (Larder always writes content first.)
    Writeback,
    /// Content is written through the journal too.
    Journal,
}

/// Action when an operation that changes a volume detects corruption (`errors=`). In every mode,
/// the operation fails, and the place and time are recorded in the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorsMode {
    /// Only the operation fails.
    Continue,
    /// The volume becomes read-only. The journal is aborted, as in the kernel, so that uncommitted
    /// changes are lost.
    RemountReadOnly,
    /// The same as [`ErrorsMode::RemountReadOnly`]; the kernel panics in this mode.
    Abort,
}

impl ErrorsMode {
    /// Returns the mode that the superblock specifies. As in the kernel, an unknown value means
    /// read-only.
    pub(crate) fn of_superblock(superblock: &Superblock) -> Self {
        match superblock.errors {
            1 => Self::Continue,
            3 => Self::Abort,
            _ => Self::RemountReadOnly,
        }
    }
}

impl OpenOptions {
    /// The maximum number of readahead threads.
    pub const MAX_READAHEAD_THREADS: usize = 256;
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            offset_bytes: 0,
            cache_size_bytes: 256 << 20,
            readahead: "ondemand".to_owned(),
            readahead_max_bytes: 1 << 20,
            readahead_threads: 4,
            direct_device: false,
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
