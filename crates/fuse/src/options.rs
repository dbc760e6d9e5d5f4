//! The options of a mount.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// How the kernel passes requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Through `io_uring` if the kernel offers it and the rings can be set up, otherwise through /dev/fuse. Also through
    /// /dev/fuse if [`MountOptions::threads`] is 1, or if the server lacks the capability `CAP_SYS_NICE`, without which
    /// small changes, and reads of many files, are slower over `io_uring`.
    #[default]
    Auto,
    /// Through `io_uring`, which needs Linux 6.14 and the parameter `enable_uring` of the kernel module `fuse`.
    Uring,
    /// Through /dev/fuse.
    Device,
}

impl Transport {
    /// The file with which root enables `io_uring`: it contains `N`, or `Y` if `io_uring` is enabled.
    pub const URING_PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";
    /// The names that [`Transport::from_str`] parses.
    pub const NAMES: [&str; 3] = ["auto", "uring", "dev"];
}

/// Whether the kernel collects written data before it sends the data to the server.
///
/// Collecting makes programs faster that write a few bytes at a time. But a full image is reported by close(2) or
/// fsync(2) instead of write(2), and each removal or rename of a file needs one more request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteBack {
    /// If the kernel has a strict limit on the unwritten data of the mount, and at most an eighth of the available
    /// space must be set aside for this data. Never with `direct_io` or `sync`, or if another program has attached the
    /// mount: when a signal ends the server, the kernel could not send the data.
    #[default]
    Auto,
    /// Always, except with `direct_io`. If no space can be set aside, data that the kernel has accepted may
    /// find no space later; close(2) or fsync(2) then returns `ENOSPC`.
    On,
    /// Never: every write(2) is a request.
    Off,
}

/// The name of a transport is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transport must be auto, uring or dev")]
pub struct UnknownTransport;

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(name: &str) -> Result<Self, UnknownTransport> {
        match name {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "dev" => Ok(Self::Device),
            _ => Err(UnknownTransport),
        }
    }
}

/// The options of [`Server::mount`](crate::Server::mount).
///
/// The kernel checks permissions (`default_permissions`), unless `fakeroot` is true.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the options are independent")]
pub struct MountOptions {
    /// The source that mount(8) shows. If it is empty, the source is `larder`. Default: empty.
    pub fs_name: OsString,
    /// The part of the file-system type after `fuse.`. If it is `None`, the type is `fuse`. Default: `larder`.
    pub subtype: Option<String>,
    /// Mount for writing. The volume must have been opened for writing. Default: false.
    pub read_write: bool,
    /// Make each change of content, names or attributes durable before the system call returns. Default:
    /// false.
    pub sync: bool,
    /// Give the permissions of root to every user who has access. Default: false.
    pub fakeroot: bool,
    /// The user who is shown as the owner of all files. Changes still store the true owner. Default: `None`, which shows
    /// the owner of each file.
    pub shown_uid: Option<u32>,
    /// The group that is shown as the group of all files. Default: `None`, which shows the group of each file.
    pub shown_gid: Option<u32>,
    /// Give all users access. Otherwise, only the user who mounts has access. Default: false.
    pub allow_other: bool,
    /// Give access to root and to the user who mounts. Default: false.
    pub allow_root: bool,
    /// Honour set-user-id bits; needs root. Default: false.
    pub suid: bool,
    /// Honour device files; needs root. Default: false.
    pub dev: bool,
    /// Refuse to execute programs. Default: false.
    pub noexec: bool,
    /// Mount over a directory that is not empty. Default: false.
    pub nonempty: bool,
    /// Do not let the kernel cache pages of files. Every read is answered from the page cache of the volume,
    /// and the readahead policy of the volume receives each read as the program issued it. Default: false.
    pub direct_io: bool,
    /// Whether the kernel collects written data on a writable mount. Default: [`WriteBack::Auto`].
    pub write_back: WriteBack,
    /// The maximum number of requests that wait for the device at the same time, at most
    /// [`MountOptions::MAX_THREADS`]. Each waits in a thread, which starts when it is needed and ends when it
    /// is idle. Other threads receive the requests: at most six if the transport is /dev/fuse, or at most 17 if
    /// it is `io_uring`. With `io_uring`, each of these requests can use up to 1 MiB of memory. On a writable mount,
    /// a few more requests can wait, for example large writes in threads that receive requests. Default: 16, so
    /// that many requests can wait for one commit. With 1, a single thread receives and answers all requests of a
    /// read-only mount, unless the transport is [`Transport::Uring`].
    pub threads: Option<NonZeroUsize>,
    /// How the kernel passes requests. Default: [`Transport::Auto`].
    pub transport: Transport,
    /// The maximum readahead of the kernel, in bytes. It has an effect only if the server runs as root.
    /// Default: 1 MiB. The default of Linux is [`MountOptions::KERNEL_READAHEAD_BYTES`].
    pub kernel_readahead_bytes: u64,
    /// Whether Larder reads ahead also for requests that are larger than
    /// [`MountOptions::KERNEL_READAHEAD_BYTES`]. By default, it passes them to the device as they are, because the
    /// kernel reads ahead itself. Set this option if Larder should read further ahead than the kernel. Default: false.
    pub reads_ahead_for_all: bool,
    /// Answer queries for the statistics of the mount on a socket ([`larder_observe::Listener`]). If the server is killed,
    /// the file of the socket remains. Default: true.
    pub has_statistics: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            fs_name: OsString::new(),
            subtype: Some("larder".to_owned()),
            read_write: false,
            sync: false,
            fakeroot: false,
            shown_uid: None,
            shown_gid: None,
            allow_other: false,
            allow_root: false,
            suid: false,
            dev: false,
            noexec: false,
            nonempty: false,
            direct_io: false,
            write_back: WriteBack::Auto,
            threads: None,
            transport: Transport::Auto,
            kernel_readahead_bytes: 1 << 20,
            reads_ahead_for_all: false,
            has_statistics: true,
        }
    }
}

impl MountOptions {
    /// The default of the kernel's maximum readahead for a mount, in bytes.
    pub const KERNEL_READAHEAD_BYTES: u64 = 128 << 10;

    /// The maximum of [`MountOptions::threads`].
    pub const MAX_THREADS: usize = 256;

    /// Returns the value of [`MountOptions::threads`], or its default.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        self.threads.map_or(16, usize::from)
    }
}
