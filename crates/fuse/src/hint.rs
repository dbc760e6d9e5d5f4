//! Hints for the user on errors of mounting and unmounting.

use crate::{Error, Transport, mount_of};
use std::io::ErrorKind;

/// The hint for a path that is not the mount point of an image.
const LIST_MOUNTS: &str =
    "use the mount point of an image; findmnt -t fuse.larder lists all mounts";

impl Error {
    /// Returns advice on what the user can do about the error, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoMountpoint(path) => format!("create it: mkdir -p {}", path.display()),
            Self::NotDirectory(_) => "use a directory as the mount point".to_owned(),
            Self::NotEmpty(_) => {
                "use an empty directory, or -o nonempty, which hides its files".to_owned()
            }
            Self::NotFuseDescriptor(_) => {
                "use a directory as the mount point, or start the program that passes the descriptor".to_owned()
            }
            Self::PermissionsUnchecked(_) => {
                "add default_permissions to the options of the program that mounts"
                    .to_owned()
            }
            Self::NotEnded { .. } => {
                "unmount with the program that mounted; the FUSE control file system is mounted by root: \
                 mount -t fusectl none /sys/fs/fuse/connections"
                    .to_owned()
            }
            Self::InUse { mountpoint, .. } | Self::ServerDead(mountpoint) => {
                format!("unmount it first: larder umount {}", mountpoint.display())
            }
            Self::NoFuseDevice => {
                "load the kernel module: modprobe fuse (in a container, pass --device /dev/fuse)"
                    .to_owned()
            }
            Self::DevicePermission => {
                "restore the usual mode, as root: chmod 666 /dev/fuse".to_owned()
            }
            Self::NoFusermount => {
                "install the package fuse3; larder ls, cat and cp read images without a mount"
                    .to_owned()
            }
            Self::AllowOther(_) => {
                "as root, add the line user_allow_other to /etc/fuse.conf; or mount as root"
                    .to_owned()
            }
            Self::IoUringOff => format!(
                "on Linux 6.14 or later, as root: echo Y > {}; or use --transport auto",
                Transport::URING_PARAMETER
            ),
            Self::NoIoUring(error) if error.kind() == ErrorKind::PermissionDenied => {
                "as root: sysctl kernel.io_uring_disabled=0; in a container, the seccomp profile \
                 must also permit io_uring; or use --transport dev"
                    .to_owned()
            }
            Self::NoIoUring(_) => "use --transport dev".to_owned(),
            Self::NeedsRoot(option) => format!("leave out -o {option}, or mount as root"),
            Self::Busy(path) => format!(
                "end the programs that use it (fuser -vm {0} lists them), or detach it now: \
                 larder umount --lazy {0}",
                path.display()
            ),
            Self::Close(_) | Self::ServerClose { .. } => {
                "committed changes are safe, and the next mount recovers them; e2fsck -n IMAGE checks \
                 the image, and e2fsck -n 'IMAGE?offset=BYTES' a partition"
                    .to_owned()
            }
            Self::Unrecorded { .. } => {
                "free some space, and record to a new file; larder lab trace info shows the \
                 content of this trace"
                    .to_owned()
            }
            Self::NotMounted(path) => match mount_of(path) {
                Ok(Some(mount)) if mount.is_fuse() => {
                    format!(
                        "it is inside the mount at {}; use that directory",
                        mount.mountpoint.display()
                    )
                }
                _ => LIST_MOUNTS.to_owned(),
            },
            Self::Absent(_) | Self::NotLarder { .. } => LIST_MOUNTS.to_owned(),
            Self::NotOwner { owner, .. } => format!("unmount it as user {owner} or as root"),
            Self::Observe(error) => return error.hint(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn hint_on_io_uring_names_what_root_must_set() {
        let hint = Error::IoUringOff.hint().unwrap();
        let command = "as root: echo Y > /sys/module/fuse/parameters/enable_uring";
        assert!(hint.contains(command), "{hint}");
        let hint = Error::NoIoUring(Errno::PERM.into()).hint().unwrap();
        assert!(
            hint.contains("as root: sysctl kernel.io_uring_disabled=0"),
            "{hint}"
        );
        let hint = Error::NoIoUring(Errno::NFILE.into()).hint().unwrap();
        assert_eq!(hint, "use --transport dev");
    }
}
