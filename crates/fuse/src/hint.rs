//! Hints for errors.

use crate::{Error, mount_of};

/// How to list mounts.
const LIST_MOUNTS: &str =
    "give the directory that an image is mounted on; findmnt -t fuse.larder lists them";

impl Error {
    /// Returns what the user can do about the error, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoMountpoint(path) => format!("create it: mkdir -p {}", path.display()),
            Self::NotDirectory(_) => "give a directory to mount on".to_owned(),
            Self::NotEmpty(_) => {
                "give an empty directory, or -o nonempty to hide what it holds".to_owned()
            }
            Self::InUse { mountpoint, .. } | Self::ServerGone(mountpoint) => {
                format!("unmount it first: larder umount {}", mountpoint.display())
            }
            Self::NoFuseDevice => {
                "load the kernel module: modprobe fuse (in a container, pass --device /dev/fuse)"
                    .to_owned()
            }
            Self::DeviceClosed => {
                "as root: chmod 666 /dev/fuse, which is the mode that udev gives it".to_owned()
            }
            Self::NoFusermount => {
                "install the package fuse3; without it, ls, cat and cp read images with no mount"
                    .to_owned()
            }
            Self::AllowOther(_) => {
                "ask the administrator to add user_allow_other to /etc/fuse.conf, or mount as root"
                    .to_owned()
            }
            Self::NeedsRoot(option) => format!("leave out -o {option}, or mount as root"),
            Self::Busy(path) => format!(
                "close what uses it (fuser -vm {0}), or detach it now: larder umount --lazy {0}",
                path.display()
            ),
            Self::Close(_) | Self::ServerClose { .. } => {
                "what was committed before is safe: the next mount recovers it; \
                 see also what e2fsck -n says"
                    .to_owned()
            }
            Self::Unrecorded { .. } => {
                "make room and record again, to a new file; larder lab trace info says what the \
                 trace holds"
                    .to_owned()
            }
            Self::NotMounted(path) => match mount_of(path) {
                Ok(Some(mount)) if mount.is_fuse() => {
                    format!(
                        "it lies in the mount at {}: give that",
                        mount.mountpoint.display()
                    )
                }
                _ => LIST_MOUNTS.to_owned(),
            },
            Self::Absent(_) | Self::NotOurs { .. } => LIST_MOUNTS.to_owned(),
            Self::NotYours { owner, .. } => format!("unmount it as user {owner} or as root"),
            Self::Observe(error) => return error.hint(),
            _ => return None,
        })
    }
}
