//! Takes over a mount that another program has attached: the mount point `/dev/fd/N`, as in libfuse 3.
//!
//! A privileged program opens /dev/fuse as descriptor N, mounts, and starts the server without privileges. mount.fuse3
//! with the option `drop_privileges` does this, and apptainer if it is installed set-user-id. The kernel enforces the
//! options of that program, and that program unmounts. The mount can be in another mount namespace.
//!
//! Even if that program did not set `default_permissions`, the kernel checks permissions, because the server accepts
//! the capability `FUSE_POSIX_ACL` (unless `fakeroot` is set).

use super::info;
use crate::{Error, MountEntry, Result};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::fs;
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;

/// The kernel's FUSE device.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// Returns the number of the descriptor, if `mountpoint` is `/dev/fd/N`.
pub(super) fn descriptor(mountpoint: &Path) -> Option<RawFd> {
    let number = mountpoint.to_str()?.strip_prefix("/dev/fd/")?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse().ok()).flatten()
}

/// Checks that the descriptor is an open /dev/fuse.
pub(super) fn check(descriptor: RawFd) -> Result<()> {
    let target = fs::read_link(format!("/proc/self/fd/{descriptor}"));
    if target.is_ok_and(|target| target == Path::new(DEVICE)) {
        Ok(())
    } else {
        Err(Error::NotFuseDescriptor(descriptor))
    }
}

/// Takes over the mount of `descriptor`. Returns the connection to the kernel, and the entry of the mount.
pub(super) fn take(descriptor: RawFd) -> Result<(OwnedFd, MountEntry)> {
    check(descriptor)?;
    let entry = entry(descriptor)?;
    Ok((duplicate(descriptor)?, entry))
}

/// Returns the entry in the list of mounts. If the mount is in another mount namespace, returns an entry with the
/// mount point `/dev/fd/N`. Linux before 6.16 does not report the device number of a connection; it is then 0, which
/// no mount has.
fn entry(descriptor: RawFd) -> Result<MountEntry> {
    let information = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"));
    let device_minor = information
        .ok()
        .and_then(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("fuse_connection:")?.trim().parse().ok())
        })
        .unwrap_or(0);
    let is_same = |entry: &MountEntry| {
        entry.is_fuse() && (entry.device_major, entry.device_minor) == (0, device_minor)
    };
    if let Some(listed) = info::entries()?.into_iter().find(is_same) {
        return Ok(listed);
    }
    let mut entry = MountEntry::default();
    entry.device_minor = device_minor;
    entry.mountpoint = format!("/dev/fd/{descriptor}").into();
    "fuse".clone_into(&mut entry.fs_type);
    entry.source = DEVICE.into();
    entry.super_options = format!("user_id={}", rustix::process::getuid().as_raw());
    Ok(entry)
}

/// Returns a duplicate of `descriptor`. No value in this process owns `descriptor`, so it cannot be borrowed.
/// `pidfd_getfd(2)`, with which a debugger copies descriptors of another process, also copies descriptors of this
/// process.
fn duplicate(descriptor: RawFd) -> Result<OwnedFd> {
    pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty()))
        .map_err(|errno| Error::Session(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn only_paths_of_descriptors_are_descriptors() {
        assert_eq!(descriptor(Path::new("/dev/fd/4")), Some(4));
        for path in [
            "/dev/fd/",
            "/dev/fd/-1",
            "/dev/fd/+1",
            "/dev/fd/4/x",
            "/mnt",
            "/dev/fd/99999999999",
        ] {
            assert_eq!(descriptor(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn descriptor_of_another_file_is_refused() {
        let file = tempfile::tempfile().unwrap();
        for number in [file.as_raw_fd(), 987_654] {
            let error = take(number).unwrap_err();
            assert!(matches!(error, Error::NotFuseDescriptor(_)), "{error}");
        }
    }
}
