//! What the kernel is asked for at the first handshake.

use crate::MountOptions;
use fuser::{InitFlags, KernelConfig};

/// The most that the kernel asks for, or sends, at once, in bytes.
const REQUEST_BYTES: u32 = 1 << 20;
/// Requests that nobody waits for, under way at once. Linux's default: 12.
const MAX_BACKGROUND: u16 = 128;
/// Of these, how many until the kernel takes the device for congested.
const CONGESTION_THRESHOLD: u16 = 96;

/// Asked for on every mount, where the kernel has them.
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
    // The kernel keeps a mapping and what goes past it alike.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];

/// Asked for where the mount can be written. Not among them is `FUSE_SETXATTR_EXT`, which the
/// transport cannot parse.
const WRITING: [InitFlags; 2] = [
    // The umask is for the volume to apply, as a default access control list replaces it.
    InitFlags::FUSE_DONT_MASK,
    // Set-id bits go when we change the file. Otherwise the kernel looks for capabilities in the
    // file's attributes at every write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];

/// Asks for what the kernel has.
pub(super) fn negotiate(config: &mut KernelConfig, options: &MountOptions) {
    let more = [
        // The kernel invalidates cached pages when a direct write returns, but not when an
        // asynchronous one completes: pages that were read meanwhile would stay stale. The server
        // cannot invalidate them before it answers, since that waits for reads under way, which
        // may be queued behind direct writes.
        (InitFlags::FUSE_ASYNC_DIO, !options.read_write),
        // This makes the kernel check permissions whatever the mount's options say.
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
            tracing::debug!(?missing, "the kernel lacks a capability");
        }
    }
    // Each of these says what it would take instead, if ours is too much.
    let _ = config.set_max_write(REQUEST_BYTES);
    if let Err(most) = config.set_max_readahead(REQUEST_BYTES) {
        let _ = config.set_max_readahead(most);
    }
    let _ = config.set_max_background(MAX_BACKGROUND);
    let _ = config.set_congestion_threshold(CONGESTION_THRESHOLD);
}
