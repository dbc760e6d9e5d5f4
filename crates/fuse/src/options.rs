//! How a volume is mounted.

use std::ffi::OsString;
use std::num::NonZeroUsize;

/// Options of [`Server::mount`](crate::Server::mount), one field each.
///
/// The kernel checks permissions (`default_permissions`), unless `fakeroot` says otherwise.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "mount(8) has as many switches"
)]
pub struct MountOptions {
    /// What mount(8) shows as the source. Default: empty, shown as `larder`.
    pub fs_name: OsString,
    /// The part of the file-system type behind `fuse.`; `None` makes the type
    /// exactly `fuse`. Default: `larder`.
    pub subtype: Option<String>,
    /// Mount for writing too: the volume must have been opened so. Default: false.
    pub read_write: bool,
    /// Make every change, of content, names and attributes, durable before it returns. Default: false.
    pub sync: bool,
    /// Let everyone who gets in do everything, as root may. Default: false.
    pub fakeroot: bool,
    /// Let every user in. Default: false, only the one who mounts.
    pub allow_other: bool,
    /// Let root in, beside the one who mounts. Default: false.
    pub allow_root: bool,
    /// Honour set-user-id bits; only root may ask. Default: false.
    pub suid: bool,
    /// Honour device files; only root may ask. Default: false.
    pub dev: bool,
    /// Refuse to execute programs. Default: false.
    pub noexec: bool,
    /// Mount over a directory that is not empty. Default: false.
    pub nonempty: bool,
    /// Let the kernel cache no pages of files: every read is answered from the volume's page
    /// cache, and its readahead policy sees each one as the program made it. Default: false.
    pub direct_io: bool,
    /// Let the kernel gather what programs write before it sends it: cheaper for programs that
    /// write a few bytes at a time; but what goes wrong (no space, say) shows at close(2) or fsync(2)
    /// instead of write(2), and each new or removed file costs one more request. Default: false.
    pub writeback_cache: bool,
    /// Threads that answer requests, [`MountOptions::MOST_THREADS`] at most.
    /// Default: 16 if the mount can be written, so that many may wait for one commit; else twice
    /// the processors, at least 4 and at most 8.
    pub threads: Option<NonZeroUsize>,
    /// What the kernel may read ahead, in bytes; set only as root.
    /// Default: 1 MiB (Linux: 128 KiB).
    pub kernel_readahead_bytes: u64,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            fs_name: OsString::new(),
            subtype: Some("larder".to_owned()),
            read_write: false,
            sync: false,
            fakeroot: false,
            allow_other: false,
            allow_root: false,
            suid: false,
            dev: false,
            noexec: false,
            nonempty: false,
            direct_io: false,
            writeback_cache: false,
            threads: None,
            kernel_readahead_bytes: 1 << 20,
        }
    }
}

impl MountOptions {
    /// The most threads that may answer requests.
    pub const MOST_THREADS: usize = 256;

    /// The number of threads that answer requests.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        self.threads.map_or_else(
            || {
                if self.read_write {
                    return 16;
                }
                let processors = std::thread::available_parallelism().map_or(1, usize::from);
                processors.saturating_mul(2).clamp(4, 8)
            },
            usize::from,
        )
    }
}
