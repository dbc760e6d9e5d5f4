//! Options for opening a volume.

use crate::clock::{Clock, SystemClock};
use larder_cache::mbcache::Variant;
use larder_cache::tables::Tables;
use larder_cache::tape::Tape;
use larder_ext4::ondisk::superblock::Superblock;
use larder_readahead::PolicyName;
use std::sync::Arc;
use std::time::Duration;

/// The maximum size of a readahead window for an image on a server, in bytes: the product of the bandwidth and the delay
/// of a fast link, with 10 Gbit/s and 27 ms.
const SERVER_READAHEAD_BYTES: u64 = 32 << 20;
/// A readahead window for an image on a server is at most the memory for all caches divided by this number.
const SERVER_READAHEAD_DIVISOR: u64 = 8;

/// Options for opening an image. Each option is a field, and a method that sets it:
///
/// ```
/// use larder::OpenOptions;
///
/// let options = OpenOptions::new()
///     .read_write(true)
///     .cache_size_bytes(64 << 20);
/// assert!(options.read_write);
/// ```
///
/// [`OpenOptions::open`] opens an image as an [`Fs`](crate::Fs), and
/// [`Volume::open`](crate::Volume::open) opens it as a [`Volume`](crate::Volume).
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the options are independent")]
#[non_exhaustive]
pub struct OpenOptions {
    /// The offset of the file system in the file or device, in bytes. Default: 0.
    pub offset_bytes: u64,
    /// The size of the part of the file or device that the file system may use, in bytes. `None` means up to the
    /// end. Default: `None`.
    pub size_bytes: Option<u64>,
    /// The memory that all caches share, in bytes. Default: 256 MiB.
    pub cache_size_bytes: u64,
    /// The readahead policy. Default: [`PolicyName::OnDemand`].
    pub readahead: PolicyName,
    /// The maximum size of a readahead window, in bytes. 0 disables readahead. Default: 1 MiB
    /// (Linux: 128 KiB). The policy [`PolicyName::Adaptive`] sizes its windows itself, and ignores any limit except 0.
    pub readahead_max_bytes: u64,
    /// Whether the readahead policy works exactly as in the kernel that it models (no effect with
    /// [`PolicyName::Adaptive`]):
    ///
    /// | | `false` | `true` |
    /// |---|---|---|
    /// | limit of a window | `readahead_max_bytes`, or 1/(3 *n*) of the page cache for *n* active readers, whichever is less | `readahead_max_bytes` |
    /// | image on a server | a window is also limited to a length that keeps the connection busy, and with `ondemand` and `modern`, the first window of a sequential reader can be longer | no difference from an image file |
    /// | concurrent reads through one open file | work on the same readahead state | with `legacy` and `ondemand`, each read works on a copy of the state, and stores the copy when the read ends |
    ///
    /// Default: false.
    pub readahead_exact: bool,
    /// Whether to read metadata ahead:
    ///
    /// - If a name is looked up in a directory, all blocks of the directory are read.
    /// - If a directory is listed, the inodes of its entries are read.
    /// - If the listings form a walk through a tree, the next directories of the walk are read.
    ///
    /// This saves round trips to a device with a long latency. A thread of the volume reads ahead for
    /// listings. No effect with `read_write`. Default: false.
    pub tree_readahead: bool,
    /// Whether to bypass the page cache of the host (`O_DIRECT`). The host then does not keep a
    /// second copy of cached data, and does not read ahead. Default: false.
    pub direct_device: bool,
    /// The time after which a thread stops waiting for the device. The operation of the thread then
    /// fails with `EIO`. `None` means that threads wait as long as the host does. Default: `None`.
    ///
    /// For a disk, Linux itself gives up after at most 3 minutes. A SCSI or `NVMe` command times out after 30
    /// seconds, and a SCSI command is then tried up to five more times. The option is useful where the host
    /// waits without limit, such as with a network file system or a process that serves the device. With a timeout, a
    /// thread submits each read (with `direct_device`, also each write) as a request to the device instead of making a
    /// system call. This takes longer.
    ///
    /// The limit applies to all reads, and with `direct_device` to all writes: write-back, checkpoints,
    /// the log of the journal, and superblocks. A write that exceeds it ends all writing, as any failed
    /// write does. The limit also applies when the volume is dropped, which waits for readahead to
    /// complete. It does not apply to syncs or to writes that the host caches, because a slow disk may
    /// need longer for them. It does not apply to a device that has only blocking calls
    /// ([`BackEnd::Calls`](larder_block::BackEnd::Calls)).
    pub device_timeout: Option<Duration>,
    /// Whether to ignore a journal that needs recovery. No effect with `read_write`. Default:
    /// false.
    pub noload: bool,
    /// Whether to open the image for writing, with an exclusive lock. Default: false.
    pub read_write: bool,
    /// The time between commits of the journal, in seconds. 0 means the default. Default: 5, as in
    /// Linux.
    pub commit_seconds: u32,
    /// The order in which content and metadata are written. The order determines what a file can
    /// contain after a crash. Default: [`DataMode::Ordered`].
    pub data: DataMode,
    /// The action when an operation that changes the volume detects corruption. Default: the value
    /// in the superblock.
    pub errors: Option<ErrorsMode>,
    /// Whether to start the flusher, a thread that writes back and commits periodically, and writes
    /// back when too many blocks are dirty. If false, only the operations of callers write back and
    /// commit. Default: true.
    pub background: bool,
    /// The implementation of the caches that find equal extended attributes, so that files can
    /// share them on the image. No effect unless `read_write` is set. Default:
    /// [`Variant::default`].
    pub mbcache: Variant,
    /// Whether searches for equal attributes also examine those that already have the maximum number of
    /// users, as in Linux before 4.6. Such searches take longer. For measurements. Default: false.
    pub examines_full_attributes: bool,
    /// The configuration of the tables of the caches: their hash functions, their sizes, and when
    /// the dentry cache shrinks. Default: [`Tables::LARDER`].
    pub tables: Tables,
    /// The clock for the timestamps of changes. Default: the system clock.
    pub clock: Arc<dyn Clock>,
    /// The tape, a recorder of cache events. It receives every lookup, insertion and removal of a
    /// page, buffer, dentry or inode while the volume is open. Default: none.
    pub tape: Option<Arc<dyn Tape>>,
}

/// The order in which content and metadata are written (`data=`). The order determines what a file
/// can contain after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataMode {
    /// Content is written to the device before the metadata that refers to the content is
    /// committed.
    #[default]
    Ordered,
    /// Content may be written after the metadata. Larder never does this, so the mode is the same
    /// as `Ordered`.
    Writeback,
    /// Content is written through the journal, like metadata.
    Journal,
}

/// The action when an operation that changes a volume detects corruption (`errors=`). In every
/// mode, the operation fails, and the corruption is recorded in the superblock: the time and, if
/// known, the block and the inode.
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

/// Defines a method for each option.
macro_rules! setters {
    ($($option:ident: $value:ty,)*) => {
        impl OpenOptions {
            /// Returns the default options.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }

            $(
                #[doc = concat!("Sets the field `", stringify!($option), "`.")]
                #[must_use]
                pub fn $option(mut self, $option: $value) -> Self {
                    self.$option = $option;
                    self
                }
            )*
        }
    };
}

setters! {
    offset_bytes: u64,
    size_bytes: Option<u64>,
    cache_size_bytes: u64,
    readahead: PolicyName,
    readahead_max_bytes: u64,
    readahead_exact: bool,
    tree_readahead: bool,
    direct_device: bool,
    device_timeout: Option<Duration>,
    noload: bool,
    read_write: bool,
    commit_seconds: u32,
    data: DataMode,
    errors: Option<ErrorsMode>,
    background: bool,
    mbcache: Variant,
    examines_full_attributes: bool,
    tables: Tables,
    clock: Arc<dyn Clock>,
    tape: Option<Arc<dyn Tape>>,
}

impl OpenOptions {
    /// Sets the readahead options that suit an image on a server: `tree_readahead`, and a `readahead_max_bytes` that
    /// depends on `cache_size_bytes`.
    #[must_use]
    pub fn for_server(self) -> Self {
        let max_bytes = self.cache_size_bytes / SERVER_READAHEAD_DIVISOR;
        self.tree_readahead(true)
            .readahead_max_bytes(SERVER_READAHEAD_BYTES.min(max_bytes))
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            offset_bytes: 0,
            size_bytes: None,
            cache_size_bytes: 256 << 20,
            readahead: PolicyName::OnDemand,
            readahead_max_bytes: 1 << 20,
            readahead_exact: false,
            tree_readahead: false,
            direct_device: false,
            device_timeout: None,
            noload: false,
            read_write: false,
            commit_seconds: 5,
            data: DataMode::Ordered,
            errors: None,
            background: true,
            mbcache: Variant::default(),
            examines_full_attributes: false,
            tables: Tables::LARDER,
            clock: Arc::new(SystemClock),
            tape: None,
        }
    }
}
