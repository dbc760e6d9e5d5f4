//! Attaches a mount to its mount point. Root and processes that may mount in their user namespace use mount(2). Other
//! users run fusermount3. If the mount point is `/dev/fd/N`, another program has attached the mount.

use super::inherited::{self, DEVICE};
use super::{fusermount, info, unmount};
use crate::{Error, MountEntry, MountOptions, Result};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::thread::{CapabilitySet, capabilities};
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A mount that exists in the kernel and is not served yet.
#[derive(Debug)]
pub(crate) struct Attached {
    /// The connection to the kernel.
    pub device: OwnedFd,
    /// The entry of the mount in the kernel's list of mounts.
    pub entry: MountEntry,
    /// Whether another program attached the mount.
    pub is_inherited: bool,
}

/// Checks, before an image is opened, whether it can be mounted: whether FUSE is available, the mount point
/// can be used, and the caller may use the options.
///
/// # Errors
/// Returns the same errors as [`Server::mount`](crate::Server::mount).
pub fn check_mount(mountpoint: &Path, options: &MountOptions) -> Result<()> {
    match inherited::descriptor(mountpoint) {
        Some(descriptor) => inherited::check(descriptor),
        None => checked(mountpoint, options).map(|_| ()),
    }
}

/// Makes the checks of [`check_mount`], and returns the canonical path of the mount point.
fn checked(mountpoint: &Path, options: &MountOptions) -> Result<PathBuf> {
    if !Path::new(DEVICE).exists() {
        return Err(Error::NoFuseDevice);
    }
    if !rustix::process::geteuid().is_root() {
        for (is_requested, name) in [(options.suid, "suid"), (options.dev, "dev")] {
            if is_requested {
                return Err(Error::NeedsRoot(name));
            }
        }
    }
    let path = checked_mountpoint(mountpoint, options.nonempty)?;
    if !may_mount() {
        fusermount::find()?;
    }
    Ok(path)
}

/// Returns whether this process is to try mount(2).
fn may_mount() -> bool {
    rustix::process::geteuid().is_root()
        || capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Checks the mount point and the options, and attaches a mount to `mountpoint`.
pub(crate) fn attach(mountpoint: &Path, options: &MountOptions) -> Result<Attached> {
    if let Some(descriptor) = inherited::descriptor(mountpoint) {
        let (device, entry) = inherited::take(descriptor)?;
        return Ok(Attached {
            device,
            entry,
            is_inherited: true,
        });
    }
    let is_root = rustix::process::geteuid().is_root();
    let path = checked(mountpoint, options)?;
    let device = if may_mount() {
        match mount_directly(&path, options) {
            // In a container, root may lack permissions that the set-user-id program fusermount3 has.
            Err(error) if is_root && is_denied(&error) && fusermount::find().is_ok() => {
                mount_through_fusermount(&path, options)?
            }
            result => result?,
        }
    } else {
        mount_through_fusermount(&path, options)?
    };
    let found = info::mounted_at(&path);
    match found.and_then(|entry| entry.ok_or_else(|| Error::NotMounted(path.clone()))) {
        Ok(entry) => Ok(Attached {
            device,
            entry,
            is_inherited: false,
        }),
        Err(error) => {
            // A mount without a server must not remain.
            if let Err(left) = unmount::detach(&path, true) {
                tracing::warn!("cannot unmount {}: {left}", path.display());
            }
            Err(error)
        }
    }
}

/// Checks that the mount point can be used, and returns its canonical path.
fn checked_mountpoint(mountpoint: &Path, may_hold_files: bool) -> Result<PathBuf> {
    let failed = |source: io::Error| match Errno::from_io_error(&source) {
        Some(Errno::NOENT) => Error::NoMountpoint(mountpoint.to_owned()),
        Some(Errno::NOTDIR) => Error::NotDirectory(mountpoint.to_owned()),
        _ => Error::Mountpoint {
            mountpoint: mountpoint.to_owned(),
            source,
        },
    };
    let path = info::canonical_mountpoint(mountpoint).map_err(failed)?;
    let present = info::mounted_at(&path)?.filter(MountEntry::is_fuse);
    if let Some(entry) = present {
        // This is checked first, because on a mount without a server all other checks fail.
        if unmount::is_server_dead(&path) {
            return Err(Error::ServerDead(path));
        }
        if entry.fs_type == "fuse.larder"
            || info::server_of(&entry).is_ok_and(|server| server.is_answering())
        {
            return Err(Error::InUse {
                mountpoint: path,
                source_name: entry.source.to_string_lossy().into_owned(),
            });
        }
    }
    let is_directory = fs::metadata(&path).map_err(failed)?.is_dir();
    if !is_directory {
        return Err(Error::NotDirectory(path));
    }
    // If the directory cannot be read, the kernel decides whether it can be mounted on.
    let holds_files = fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some());
    if holds_files && !may_hold_files {
        return Err(Error::NotEmpty(path));
    }
    Ok(path)
}

/// Returns whether a mount has failed for lack of permission.
fn is_denied(error: &Error) -> bool {
    match error {
        Error::DevicePermission => true,
        Error::Mount { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
        _ => false,
    }
}

fn mount_directly(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd> {
    let failed = |source: io::Error| Error::Mount {
        mountpoint: mountpoint.to_owned(),
        source,
    };
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open(DEVICE)
        .map_err(|source| match Errno::from_io_error(&source) {
            Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => Error::NoFuseDevice,
            Some(Errno::ACCESS) => Error::DevicePermission,
            _ => failed(source),
        })?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if !options.fakeroot {
        data.push_str(",default_permissions");
    }
    if options.allow_other || options.allow_root {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).map_err(|error| failed(error.into()))?;
    let fs_type = match &options.subtype {
        Some(subtype) => format!("fuse.{subtype}"),
        None => "fuse".to_owned(),
    };
    rustix::mount::mount(
        source_name(options),
        mountpoint,
        fs_type,
        kernel_flags(options),
        data.as_c_str(),
    )
    .map_err(|errno| match errno {
        Errno::NODEV => Error::NoFuseDevice,
        _ => failed(errno.into()),
    })?;
    Ok(device.into())
}

fn kernel_flags(options: &MountOptions) -> MountFlags {
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, !options.read_write);
    flags.set(MountFlags::SYNCHRONOUS, options.sync);
    flags.set(MountFlags::NOSUID, !options.suid);
    flags.set(MountFlags::NODEV, !options.dev);
    flags.set(MountFlags::NOEXEC, options.noexec);
    flags
}

fn mount_through_fusermount(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd> {
    let program = fusermount::find()?;
    let mut text = OsString::from(if options.read_write { "rw" } else { "ro" });
    // `checked` has rejected `suid` and `dev` for users other than root.
    text.push(if options.suid { ",suid" } else { ",nosuid" });
    text.push(if options.dev { ",dev" } else { ",nodev" });
    if options.sync {
        text.push(",sync");
    }
    if !options.fakeroot {
        text.push(",default_permissions");
    }
    if options.noexec {
        text.push(",noexec");
    }
    if options.allow_other || options.allow_root {
        text.push(",allow_other");
    }
    text.push(",fsname=");
    text.push(fusermount::escaped(source_name(options)));
    if let Some(subtype) = &options.subtype {
        text.push(",subtype=");
        text.push(fusermount::escaped(OsStr::new(subtype)));
    }
    fusermount::mount(&program, mountpoint, &text).map_err(|error| match error {
        Error::AllowOther(_) if options.allow_root => Error::AllowOther("allow_root"),
        error => error,
    })
}

fn source_name(options: &MountOptions) -> &OsStr {
    if options.fs_name.is_empty() {
        OsStr::new("larder")
    } else {
        &options.fs_name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_mount_point_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = checked_mountpoint(&dir.path().join("none"), false).unwrap_err();
        assert!(matches!(error, Error::NoMountpoint(_)), "{error}");
    }

    #[test]
    fn file_as_mount_point_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = checked_mountpoint(file.path(), false).unwrap_err();
        assert!(matches!(error, Error::NotDirectory(_)), "{error}");
    }

    #[test]
    fn directory_below_a_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = checked_mountpoint(&file.path().join("x"), false).unwrap_err();
        assert!(matches!(error, Error::NotDirectory(_)), "{error}");
    }

    #[test]
    fn directory_with_files_needs_nonempty() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = checked_mountpoint(dir.path(), false).unwrap_err();
        assert!(matches!(error, Error::NotEmpty(_)), "{error}");
        assert!(error.hint().unwrap().contains("-o nonempty"));
        checked_mountpoint(dir.path(), true).unwrap();
    }

    #[test]
    fn flags_default_to_read_only_without_suid_and_devices() {
        let flags = kernel_flags(&MountOptions::default());
        assert_eq!(
            flags,
            MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV
        );
    }
}
