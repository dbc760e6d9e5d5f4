//! How a volume is opened.

use crate::clock::{Clock, SystemClock};
use larder_cache::mbcache::Variant;
use larder_cache::tables::Tables;
use larder_cache::tape::Tape;
use larder_ext4::ondisk::superblock::Superblock;
use std::sync::Arc;

/// Options of [`Volume::open`](crate::Volume::open), one field each.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Where the file system starts inside the file or device, in bytes. Default: 0.
    pub offset_bytes: u64,
    /// Memory that all caches share, in bytes. Default: 256 MiB.
    pub cache_size_bytes: u64,
    /// Readahead policy by name, one of [`PolicyName::ALL`](crate::PolicyName::ALL): `off`,
    /// `legacy`, `ondemand` or `modern`. Default: `ondemand`.
    pub readahead: String,
    /// The most that is read ahead at once, in bytes; 0 reads nothing ahead.
    /// Default: 1 MiB (Linux: 128 KiB).
    pub readahead_max_bytes: u64,
    /// Threads that read ahead, [`OpenOptions::MOST_READAHEAD_THREADS`] at most; with none, nothing
    /// is read ahead. Default: 4.
    pub readahead_threads: usize,
    /// Read the image past the host's page cache (`O_DIRECT`): nothing is cached twice, and only
    /// the readahead policy reads ahead. Default: false.
    pub direct_device: bool,
    /// Ignore the journal, even if it needs recovery. Default: false.
    pub noload: bool,
    /// Open for writing, with an exclusive lock. Default: false.
    pub read_write: bool,
    /// Seconds between commits of the journal. Default: 5, as Linux.
    pub commit_seconds: u32,
    /// How content and metadata keep together over a crash. Default: [`DataMode::Ordered`].
    pub data: DataMode,
    /// What happens when the image turns out to be damaged. Default: what the superblock says.
    pub errors: Option<ErrorsMode>,
    /// Write back and commit in the background, by a thread of its own, as age and memory ask for
    /// it. Without, only the callers' own operations do. Default: true.
    pub background: bool,
    /// What finds attributes that another file has already, so that both share them. Default:
    /// [`Variant::default`].
    pub mbcache: Variant,
    /// The tables of the caches: hash functions, sizes, and how dentries are shrunk. Default:
    /// [`Tables::LARDER`].
    pub tables: Tables,
    /// What changes are stamped with. Default: the system's time.
    pub clock: Arc<dyn Clock>,
    /// What is told of every lookup, insert and removal of pages, buffers, dentries and inodes, from
    /// the first on. Default: nothing.
    pub tape: Option<Arc<dyn Tape>>,
}

/// How content and metadata keep together over a crash (`data=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataMode {
    /// Content is on the device before what leads to it is committed.
    #[default]
    Ordered,
    /// Content may come later. (Here it does not: content is always written first.)
    Writeback,
    /// Content goes through the journal too.
    Journal,
}

/// What happens when an operation that changes a volume finds the image damaged (`errors=`). With
/// each, the operation fails, and the superblock says where and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorsMode {
    /// Only the operation fails.
    Continue,
    /// The volume turns read-only: the journal is aborted, as the kernel does, so that what was not
    /// committed yet is lost.
    RemountReadOnly,
    /// As [`ErrorsMode::RemountReadOnly`]; the kernel panics.
    Abort,
}

impl ErrorsMode {
    /// What the superblock asks for; as in the kernel, what it does not know is taken for
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
    /// The most threads that may read ahead.
    pub const MOST_READAHEAD_THREADS: usize = 256;
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
