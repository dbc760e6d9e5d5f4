//! The capabilities that are requested in the first handshake.

use crate::MountOptions;
use fuser::{InitFlags, KernelConfig};

/// The maximum size of a request in bytes.
const REQUEST_BYTES: u32 = 1 << 20;
/// The maximum number of background requests in progress. Linux's default: 12.
const MAX_BACKGROUND: u16 = 128;
/// The number of background requests from which on the kernel treats the device as congested.
const CONGESTION_THRESHOLD: u16 = 96;

/// Requested on every mount, if the kernel supports them.
const ALWAYS: [InitFlags; 11] = [
    InitFlags::FUSE_ASYNC_READ,
    InitFlags::FUSE_MAX_PAGES,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_EXPORT_SUPPORT,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_HAS_IOCTL_DIR,
    InitFlags::FUSE_NO_OPEN_SUPPORT,
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    // The kernel keeps a mapping and direct I/O consistent.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];

/// Requested on a writable mount. `FUSE_SETXATTR_EXT` is not included, because `fuser` cannot parse it.
const WRITING: [InitFlags; 2] = [
    // The volume applies the umask, because a default access control list replaces it.
    InitFlags::FUSE_DONT_MASK,
    // The server removes set-id bits when it changes the file. Otherwise the kernel looks for
    // capabilities in the file's attributes at every write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];

/// Requests the capabilities that the kernel supports.
pub(super) fn negotiate(config: &mut KernelConfig, options: &MountOptions) {
    let more = [
        // The kernel invalidates cached pages when a direct write returns, but not when an asynchronous
        // one completes: pages read in the meantime would stay stale. The server cannot invalidate them
        // before it replies, since that waits for reads in progress, which may be queued after direct
        // writes.
        (InitFlags::FUSE_ASYNC_DIO, !options.read_write),
        // This makes the kernel check permissions regardless of the mount options.
        (InitFlags::FUSE_POSIX_ACL, !options.fakeroot),
        (
            InitFlags::FUSE_WRITEBACK_CACHE,
            options.read_write && options.writeback_cache && !options.direct_io,
        ),
    ];
    let wanted = ALWAYS
        .into_iter()
        .chain(WRITING.into_iter().filter(|_| options.read_write))
        .chain(
            more.into_iter()
                .filter_map(|(flag, is_wanted)| is_wanted.then_some(flag)),
        );
    for capability in wanted {
        if let Err(missing) = config.add_capabilities(capability) {
            tracing::debug!(?missing, "the kernel does not support a FUSE capability");
        }
    }
    // Each of these returns the largest accepted value if the requested one is too large.
    let _ = config.set_max_write(REQUEST_BYTES);
    if let Err(most) = config.set_max_readahead(REQUEST_BYTES) {
        let _ = config.set_max_readahead(most);
    }
    let _ = config.set_max_background(MAX_BACKGROUND);
    let _ = config.set_congestion_threshold(CONGESTION_THRESHOLD);
}
