//! Finds a mount by its mount point, in the kernel's list of mounts.
//!
//! A mount point is not examined with stat(2), for which the kernel would send a request to the mount's
//! server. The server may have ended, and usually answers only the user who mounted. The list does not
//! depend on servers. There is one exception: [`mount_of`] resolves a path, which may send requests to servers.

use crate::{Error, Result};
use larder_block::mounts::{self, MountEntry};
use larder_observe::Mount;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the identity of a mount, with which its server can be queried.
///
/// # Errors
/// Returns [`Error::NotLarder`] if this is not a FUSE mount.
pub fn server_of(entry: &MountEntry) -> Result<Mount> {
    let owner = entry.owner().filter(|_| entry.is_fuse());
    let owner = owner.ok_or_else(|| Error::NotLarder {
        mountpoint: entry.mountpoint.clone(),
        fs_type: entry.fs_type.clone(),
    })?;
    Ok(Mount {
        mountpoint: entry.mountpoint.clone(),
        device: (entry.device_major, entry.device_minor),
        owner,
    })
}

/// Returns the mount at `mountpoint`. If several mounts are stacked there, returns the topmost.
///
/// # Errors
/// Returns [`Error::NotMounted`] if nothing is mounted there, or the error of a path or a list of mounts that
/// cannot be read.
pub fn find_mount(mountpoint: &Path) -> Result<MountEntry> {
    let path = canonical_mountpoint(mountpoint).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Absent(mountpoint.to_owned()),
        _ => Error::Mountpoint {
            mountpoint: mountpoint.to_owned(),
            source,
        },
    })?;
    mounted_at(&path)?.ok_or(Error::NotMounted(path))
}

/// Returns the FUSE mounts of the image `image` in this mount namespace.
///
/// # Errors
/// Returns [`Error::MountInfo`] if the list of mounts cannot be read.
pub fn mounts_of(image: &Path) -> Result<Vec<MountEntry>> {
    let source = fs::canonicalize(image).unwrap_or_else(|_| image.to_owned());
    let mut entries = entries()?;
    entries.retain(|entry| entry.is_fuse() && entry.source == source.as_os_str());
    Ok(entries)
}

/// Returns the topmost mount at `path`, which must be canonical.
pub(crate) fn mounted_at(path: &Path) -> Result<Option<MountEntry>> {
    let mut entries = entries()?;
    entries.retain(|entry| entry.mountpoint == path);
    Ok(entries.pop())
}

/// Returns the mount that contains `path`.
///
/// # Errors
/// Returns [`Error::Mountpoint`] if the path cannot be resolved, and [`Error::MountInfo`] if the list of mounts
/// cannot be read.
pub fn mount_of(path: &Path) -> Result<Option<MountEntry>> {
    let path = fs::canonicalize(path).map_err(|source| Error::Mountpoint {
        mountpoint: path.to_owned(),
        source,
    })?;
    let mut entries = entries()?;
    entries.retain(|entry| path.starts_with(&entry.mountpoint));
    // If several mounts have the same mount point, the last in the list is the topmost.
    Ok(entries
        .into_iter()
        .max_by_key(|entry| entry.mountpoint.as_os_str().len()))
}

/// Returns all mounts. If mounts are stacked at a mount point, the topmost is the last.
pub(super) fn entries() -> Result<Vec<MountEntry>> {
    mounts::list().map_err(Error::MountInfo)
}

/// Returns the path of a mount point as the kernel lists it. Symbolic links are followed. No request is sent
/// to the file system that may be mounted there.
pub(crate) fn canonical_mountpoint(path: &Path) -> io::Result<PathBuf> {
    // Resolving the mount point itself would send a request to its server. Therefore only its parent is
    // resolved, and symbolic links to the mount point are followed by reading their targets.
    let mut path = std::path::absolute(path)?;
    for _ in 0..40 {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return fs::canonicalize(&path);
        };
        let joined = fs::canonicalize(parent)?.join(name);
        if mounted_at(&joined).is_ok_and(|mount| mount.is_some()) {
            return Ok(joined);
        }
        match fs::read_link(&joined) {
            Ok(target) => path = joined.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return fs::canonicalize(&joined),
        }
    }
    Err(io::Error::from_raw_os_error(
        rustix::io::Errno::LOOP.raw_os_error(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_always_mounted() {
        assert_eq!(
            find_mount(Path::new("/")).unwrap().mountpoint,
            Path::new("/")
        );
    }

    #[test]
    fn directory_without_mount_is_not_mounted() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(find_mount(dir.path()), Err(Error::NotMounted(_))));
    }

    #[test]
    fn path_in_a_mount_finds_the_innermost_one() {
        let entry = mount_of(Path::new("/proc/self/net")).unwrap().unwrap();
        assert_eq!(
            (&*entry.fs_type, &*entry.mountpoint),
            ("proc", Path::new("/proc"))
        );
        assert!(mount_of(Path::new("/proc/nowhere")).is_err());
    }

    #[test]
    fn symlink_to_a_mount_point_finds_the_mount() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/proc", &link).unwrap();
        assert_eq!(find_mount(&link).unwrap().mountpoint, Path::new("/proc"));
    }
}
