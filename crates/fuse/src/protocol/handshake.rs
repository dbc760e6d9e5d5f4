//! The handshake: the kernel offers capabilities in an `INIT` request, and the reply accepts some of them.

use super::abi::{InitIn, InitOut, MINOR_VERSION, VERSION};
use super::request::Malformed;
use crate::MountOptions;
use zerocopy::FromBytes;

/// The maximum size of the data in a request or a reply, in bytes.
pub(crate) const DATA_BYTES: u32 = 1 << 20;
/// The maximum number of background requests in progress. The default of Linux is 12.
const MAX_BACKGROUND: u16 = 128;
/// The number of background requests at which the kernel begins to treat the device as congested.
const CONGESTION_THRESHOLD: u16 = 96;

/// The capabilities of the protocol: bits of the flags of `INIT`.
mod capability {
    pub(super) const ASYNC_READ: u64 = 1 << 0;
    pub(super) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(super) const BIG_WRITES: u64 = 1 << 5;
    pub(super) const DONT_MASK: u64 = 1 << 6;
    pub(super) const HAS_IOCTL_DIR: u64 = 1 << 11;
    pub(super) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(super) const ASYNC_DIO: u64 = 1 << 15;
    pub(super) const WRITEBACK_CACHE: u64 = 1 << 16;
    pub(super) const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub(super) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(super) const POSIX_ACL: u64 = 1 << 20;
    pub(super) const MAX_PAGES: u64 = 1 << 22;
    pub(super) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(super) const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub(super) const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub(super) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// `INIT` has 64 bits of flags. The high 32 bits are in a second field.
    pub(super) const INIT_EXT: u64 = 1 << 30;
    pub(super) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(super) const OVER_IO_URING: u64 = 1 << 41;
}

/// The capabilities accepted on every mount, if the kernel offers them.
const ALWAYS: u64 = capability::ASYNC_READ
    | capability::BIG_WRITES
    | capability::MAX_PAGES
    | capability::DO_READDIRPLUS
    | capability::PARALLEL_DIROPS
    | capability::CACHE_SYMLINKS
    | capability::EXPORT_SUPPORT
    | capability::EXPLICIT_INVAL_DATA
    | capability::HAS_IOCTL_DIR
    | capability::NO_OPEN_SUPPORT
    | capability::NO_OPENDIR_SUPPORT
    | capability::INIT_EXT
    // Permits shared mappings of files that are opened for direct I/O.
    | capability::DIRECT_IO_ALLOW_MMAP;

/// The capabilities accepted only on a writable mount.
const WRITING: u64 =
    // The kernel passes the umask, and the volume applies it, unless the directory has a default access control
    // list.
    capability::DONT_MASK
    // The server removes set-id bits when it changes a file. Without this flag, the kernel would read the
    // extended attribute `security.capability` at every write.
    | capability::HANDLE_KILLPRIV_V2;

/// What the kernel offers in its `INIT` request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    minor_version: u32,
    max_readahead_bytes: u32,
    capabilities: u64,
}

/// The parts of the reply that depend on more than the options of the mount.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chosen {
    /// Requests are passed through `io_uring`.
    pub io_uring: bool,
    /// The kernel collects written data.
    pub write_back: bool,
    /// The granularity of the times of files, in nanoseconds. With 0, the kernel uses 1. A kernel that collects
    /// written data rounds down the times that it sets itself.
    pub time_granularity_ns: u32,
}

/// What both sides have agreed on.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the capabilities are independent"
)]
pub(crate) struct Agreement {
    /// The body of the reply to `INIT`.
    pub reply: InitOut,
    /// Whether the kernel may use files without `OPEN`.
    pub skips_open: bool,
    /// Whether the kernel may use directories without `OPENDIR`.
    pub skips_opendir: bool,
    /// Whether the kernel collects written data.
    pub write_back: bool,
    /// Whether the kernel checks permissions even if the mount does not have the option `default_permissions`.
    pub checks_permissions: bool,
}

impl Offer {
    /// Parses the argument of `INIT`. Returns `None` if the kernel has a newer major version. The caller must
    /// then reply with [`version_only`], and the kernel sends `INIT` again.
    ///
    /// # Errors
    /// The argument is too short, or the kernel has an older major version.
    pub(crate) fn parse(argument: &[u8]) -> Result<Option<Self>, Malformed> {
        let (init, rest) = InitIn::read_from_prefix(argument).map_err(|_| Malformed)?;
        if init.major != VERSION {
            return if init.major > VERSION {
                Ok(None)
            } else {
                Err(Malformed)
            };
        }
        let is_extended = u64::from(init.flags) & capability::INIT_EXT != 0;
        let high = match u32::read_from_prefix(rest) {
            Ok((high, _)) if is_extended => high,
            _ => 0,
        };
        Ok(Some(Self {
            minor_version: init.minor,
            max_readahead_bytes: init.max_readahead_bytes,
            capabilities: u64::from(high) << 32 | u64::from(init.flags),
        }))
    }

    /// Returns whether the kernel can collect written data.
    pub(crate) fn has_write_back(&self) -> bool {
        self.capabilities & capability::WRITEBACK_CACHE != 0
    }

    /// Returns whether the kernel can pass requests through `io_uring`.
    pub(crate) fn has_io_uring(&self) -> bool {
        self.capabilities & capability::OVER_IO_URING != 0
    }

    /// Accepts the offered capabilities that a mount with `options` needs, and those in `chosen` that are offered.
    pub(crate) fn accept(&self, options: &MountOptions, chosen: Chosen) -> Agreement {
        let mut wanted = ALWAYS;
        let mut want = |capabilities: u64, is_wanted: bool| {
            if is_wanted {
                wanted |= capabilities;
            }
        };
        want(WRITING, options.read_write);
        // Asynchronous direct I/O is not accepted on a writable mount. The kernel invalidates cached pages
        // when the system call of a direct write returns, but not when an asynchronous write completes later.
        // Pages that are read between these events would remain cached with old content. If the server
        // invalidated the pages before it replies, there could be a deadlock: an invalidation waits for reads in
        // progress, and a read in progress can wait for a direct write that is queued before it.
        want(capability::ASYNC_DIO, !options.read_write);
        // With this capability, the kernel would check permissions even if the mount options disable the check.
        want(capability::POSIX_ACL, !options.fakeroot);
        want(capability::WRITEBACK_CACHE, chosen.write_back);
        want(capability::OVER_IO_URING, chosen.io_uring);
        let missing = wanted & !self.capabilities;
        if missing != 0 {
            tracing::debug!("the kernel does not support the FUSE capabilities {missing:#x}");
        }
        let accepted = wanted & self.capabilities;
        let max_pages = DATA_BYTES as usize / rustix::param::page_size();
        let reply = InitOut {
            major: VERSION,
            minor: self.minor_version.min(MINOR_VERSION),
            max_readahead_bytes: self.max_readahead_bytes.min(DATA_BYTES),
            flags: low(accepted),
            flags2: low(accepted >> 32),
            max_background: MAX_BACKGROUND,
            congestion_threshold: CONGESTION_THRESHOLD,
            max_write_bytes: DATA_BYTES,
            time_granularity_ns: chosen.time_granularity_ns,
            max_pages: u16::try_from(max_pages).unwrap_or(u16::MAX),
            ..InitOut::default()
        };
        Agreement {
            reply,
            skips_open: accepted & capability::NO_OPEN_SUPPORT != 0,
            skips_opendir: accepted & capability::NO_OPENDIR_SUPPORT != 0,
            write_back: accepted & capability::WRITEBACK_CACHE != 0,
            checks_permissions: accepted & capability::POSIX_ACL != 0,
        }
    }
}

/// Returns the body of the reply to an `INIT` request with a newer major version.
pub(crate) fn version_only() -> InitOut {
    InitOut {
        major: VERSION,
        minor: MINOR_VERSION,
        ..InitOut::default()
    }
}

/// Returns the low 32 bits of `flags`.
fn low(flags: u64) -> u32 {
    u32::try_from(flags & u64::from(u32::MAX)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn init(major: u32, capabilities: u64) -> Vec<u8> {
        let start = InitIn {
            major,
            minor: 45,
            max_readahead_bytes: 128 << 10,
            flags: low(capabilities),
        };
        let mut bytes = start.as_bytes().to_vec();
        bytes.extend(low(capabilities >> 32).to_ne_bytes());
        bytes.resize(64, 0);
        bytes
    }

    #[test]
    fn only_offered_capabilities_are_accepted() {
        let offered = capability::ASYNC_READ | capability::DONT_MASK | capability::INIT_EXT;
        let offer = Offer::parse(&init(VERSION, offered)).unwrap().unwrap();
        let options = MountOptions {
            read_write: true,
            ..MountOptions::default()
        };
        let all = Chosen {
            io_uring: true,
            write_back: true,
            time_granularity_ns: 1_000_000_000,
        };
        let agreement = offer.accept(&options, all);
        assert_eq!(u64::from(agreement.reply.flags), offered);
        assert_eq!(agreement.reply.flags2, 0);
        assert_eq!(agreement.reply.minor, MINOR_VERSION);
        assert_eq!(agreement.reply.max_readahead_bytes, 128 << 10);
        assert_eq!(agreement.reply.time_granularity_ns, 1_000_000_000);
        assert!(!agreement.skips_open && !agreement.skips_opendir && !agreement.write_back);
    }

    #[test]
    fn chosen_capabilities_are_accepted_only_if_they_will_be_used() {
        let offered =
            capability::OVER_IO_URING | capability::WRITEBACK_CACHE | capability::INIT_EXT;
        let offer = Offer::parse(&init(VERSION, offered)).unwrap().unwrap();
        assert!(offer.has_io_uring());
        let options = MountOptions::default();
        for (io_uring, write_back) in [(false, false), (false, true), (true, false)] {
            let chosen = Chosen {
                io_uring,
                write_back,
                ..Chosen::default()
            };
            let agreement = offer.accept(&options, chosen);
            assert_eq!(agreement.reply.flags2, u32::from(io_uring) << 9);
            assert_eq!(agreement.write_back, write_back);
        }
    }

    #[test]
    fn kernel_checks_permissions_if_it_supports_access_lists() {
        let checks = |offered, fakeroot| {
            let offer = Offer::parse(&init(VERSION, offered)).unwrap().unwrap();
            let options = MountOptions {
                fakeroot,
                ..MountOptions::default()
            };
            offer.accept(&options, Chosen::default()).checks_permissions
        };
        assert!(checks(capability::POSIX_ACL, false));
        assert!(!checks(capability::POSIX_ACL, true));
        assert!(!checks(0, false));
    }

    #[test]
    fn high_flags_count_only_if_the_kernel_sends_them() {
        let argument = init(VERSION, capability::OVER_IO_URING);
        assert!(!Offer::parse(&argument).unwrap().unwrap().has_io_uring());
        let short = &init(VERSION, capability::INIT_EXT)[..16];
        assert!(!Offer::parse(short).unwrap().unwrap().has_io_uring());
    }

    #[test]
    fn newer_major_version_is_negotiated_and_older_one_is_refused() {
        assert!(Offer::parse(&init(VERSION + 1, 0)).unwrap().is_none());
        assert!(Offer::parse(&init(VERSION - 1, 0)).is_err());
        assert!(Offer::parse(&[0; 15]).is_err());
    }
}
