//! Negotiates the capabilities of the FUSE protocol with the kernel, in the handshake.

use crate::MountOptions;
use fuser::{InitFlags, KernelConfig};

/// The maximum size of a request in bytes.
const REQUEST_BYTES: u32 = 1 << 20;
/// The maximum number of background requests in progress. The default of Linux is 12.
const MAX_BACKGROUND: u16 = 128;
/// The number of background requests at which the kernel begins to treat the device as congested.
const CONGESTION_THRESHOLD: u16 = 96;

/// The capabilities requested on every mount, if the kernel supports them.
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
    // With this capability, the kernel keeps mappings consistent with direct I/O.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];

/// The capabilities requested only on a writable mount. `FUSE_SETXATTR_EXT` is not included, because `fuser`
/// cannot parse requests that use it.
const WRITING: [InitFlags; 2] = [
    // The kernel passes the umask, and the volume applies it, unless the directory has a default access
    // control list.
    InitFlags::FUSE_DONT_MASK,
    // The server removes set-id bits when it changes a file. Without this capability, the kernel would read
    // the attribute with the file's capabilities at every write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];

/// Requests those capabilities that the kernel supports, and sets the limits of the connection.
pub(super) fn negotiate(config: &mut KernelConfig, options: &MountOptions) {
    let more = [
        // Asynchronous direct I/O is not requested on a writable mount. The kernel invalidates cached pages
        // when a direct write returns, but not when an asynchronous write completes. Pages that are read
        // between these events would remain cached with old content. The server cannot invalidate the pages
        // before it replies: an invalidation waits for reads in progress, and these may be queued after
        // direct writes.
        (InitFlags::FUSE_ASYNC_DIO, !options.read_write),
        // With this capability, the kernel would check permissions even if the mount options disable the
        // check.
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
    // If a requested value is too large, these functions return the largest value that is accepted.
    let _ = config.set_max_write(REQUEST_BYTES);
    if let Err(most) = config.set_max_readahead(REQUEST_BYTES) {
        let _ = config.set_max_readahead(most);
    }
    let _ = config.set_max_background(MAX_BACKGROUND);
    let _ = config.set_congestion_threshold(CONGESTION_THRESHOLD);
}
