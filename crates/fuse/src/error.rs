//! Errors of mounting, serving and unmounting.

use std::io;
use std::path::PathBuf;

/// The result of a mount operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of mounting, serving or unmounting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The mount point does not exist. Errno: `ENOENT`.
    #[error("mount point {} does not exist", .0.display())]
    NoMountpoint(PathBuf),
    /// The path to unmount does not exist. Errno: `ENOENT`.
    #[error("{} does not exist", .0.display())]
    Absent(PathBuf),
    /// The mount point is not a directory. Errno: `ENOTDIR`.
    #[error("mount point {} is not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// The mount point contains files. Errno: `ENOTEMPTY`.
    #[error("mount point {} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// A larder mount already exists at the mount point. Errno: `EBUSY`.
    #[error("{} is already a larder mount of {source_name}", .mountpoint.display())]
    InUse {
        /// The mount point.
        mountpoint: PathBuf,
        /// The source of the existing mount.
        source_name: String,
    },
    /// A FUSE mount without a server exists at the mount point. Errno: `ENOTCONN`.
    #[error("{} is a mount whose server has exited", .0.display())]
    ServerDead(PathBuf),
    /// The mount point cannot be examined. Errno: the errno of `source`.
    #[error("cannot use mount point {}: {source}", .mountpoint.display())]
    Mountpoint {
        /// The mount point.
        mountpoint: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The mount point is a descriptor, but not one of the FUSE device. Errno: `EBADF`.
    #[error("/dev/fd/{0} is not an open /dev/fuse")]
    NotFuseDescriptor(i32),
    /// Another program has mounted without `default_permissions`, and the kernel does not offer the capability
    /// `FUSE_POSIX_ACL`, with which it also checks permissions. Errno: `EPERM`.
    #[error("{} was mounted without default_permissions: the kernel would not check permissions", .0.display())]
    PermissionsUnchecked(PathBuf),
    /// The connection of the kernel to the server cannot be ended. Errno: the errno of `source`.
    #[error("cannot end the FUSE session: {}: {source}", .path.display())]
    NotEnded {
        /// The file of the FUSE control file system.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The kernel's FUSE device is missing. Errno: `ENODEV`.
    #[error("FUSE is not available: /dev/fuse does not exist, or has no driver")]
    NoFuseDevice,
    /// The user has no permission to open the kernel's FUSE device. Errno: `EACCES`.
    #[error("no permission to open /dev/fuse")]
    DevicePermission,
    /// The program that mounts for users other than root is missing. Errno: `ENOENT`.
    #[error(
        "fusermount3 was not found in PATH or /usr/bin; users other than root need it to mount"
    )]
    NoFusermount,
    /// `allow_other` or `allow_root` is not permitted by the administrator. Errno: `EPERM`.
    #[error("the option {0} needs root, or the line user_allow_other in /etc/fuse.conf")]
    AllowOther(&'static str),
    /// `suid` or `dev` was requested by a user other than root. Errno: `EPERM`.
    #[error("the option {0} needs root")]
    NeedsRoot(&'static str),
    /// fusermount3 failed. Errno: `EPERM`.
    #[error("{0}")]
    Fusermount(String),
    /// More threads than the maximum were requested. Errno: `EINVAL`.
    #[error(
        "too many threads: {0}; the maximum is {most}",
        most = crate::MountOptions::MAX_THREADS
    )]
    TooManyThreads(usize),
    /// The kernel refused the mount. Errno: the errno of `source`.
    #[error("cannot mount on {}: {source}", .mountpoint.display())]
    Mount {
        /// The mount point.
        mountpoint: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The path is not a mount point. Errno: `EINVAL`.
    #[error("{} is not mounted", .0.display())]
    NotMounted(PathBuf),
    /// The mount is not a larder mount. Errno: `EINVAL`.
    #[error("{} is a mount of type {fs_type}, not a larder mount", .mountpoint.display())]
    NotLarder {
        /// The mount point.
        mountpoint: PathBuf,
        /// The file-system type of the mount.
        fs_type: String,
    },
    /// Files of the mount are in use. Errno: `EBUSY`.
    #[error("{} is in use", .0.display())]
    Busy(PathBuf),
    /// The kernel refused to unmount. Errno: the errno of `source`.
    #[error("cannot unmount {}: {source}", .mountpoint.display())]
    Unmount {
        /// The mount point.
        mountpoint: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The session with the kernel failed. Errno: the errno of the contained error.
    #[error("the FUSE session failed: {0}")]
    Session(io::Error),
    /// Requests must be passed through `io_uring`, which the kernel does not offer. Errno: `EOPNOTSUPP`.
    #[error(
        "cannot use io_uring for requests of the kernel: the kernel does not offer it to FUSE servers"
    )]
    IoUringOff,
    /// Requests must be passed through `io_uring`, but its rings cannot be set up. With [`Transport::Auto`]: the kernel
    /// waits for rings that a security module does not permit. Errno: the errno of the contained error.
    ///
    /// [`Transport::Auto`]: crate::Transport::Auto
    #[error("cannot use io_uring for requests of the kernel: {0}")]
    NoIoUring(io::Error),
    /// The server failed to start. Errno: the errno of the contained error.
    #[error("the server cannot start: {0}")]
    NotReady(io::Error),
    /// Closing the volume failed. Errno: the errno of the contained error.
    #[error("the most recent writes may be lost: {0}")]
    Close(larder::Error),
    /// The volume was unmounted, but its server reported that the close failed. Errno: `EIO`.
    #[error("{} is unmounted, but the most recent writes may be lost: {what}", .mountpoint.display())]
    ServerClose {
        /// The former mount point.
        mountpoint: PathBuf,
        /// The server's message.
        what: String,
    },
    /// The volume was unmounted and closed, but the recording of its caches is incomplete. Errno: `EIO`.
    #[error("{} is unmounted and the image is complete, but the recording is not: {what}", .mountpoint.display())]
    Unrecorded {
        /// The former mount point.
        mountpoint: PathBuf,
        /// The server's message.
        what: String,
    },
    /// The list of mounts could not be read. Errno: the errno of the contained error.
    #[error("cannot read /proc/self/mountinfo: {0}")]
    MountInfo(io::Error),
    /// The mount belongs to another user. Errno: `EPERM`.
    #[error("{} was mounted by user {owner}", .mountpoint.display())]
    NotOwner {
        /// The mount point.
        mountpoint: PathBuf,
        /// The ID of the user who mounted the image.
        owner: u32,
    },
    /// The server of the mount cannot be queried. Errno: the errno of the contained error.
    #[error(transparent)]
    Observe(#[from] larder_observe::Error),
}
