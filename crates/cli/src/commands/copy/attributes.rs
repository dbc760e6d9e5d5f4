//! The metadata that a copy out of an image keeps: owner, attributes, permissions and times. They are set in
//! this order, because setting the owner clears set-id bits and capabilities, and setting an access control
//! list changes the permissions.
//!
//! Setting owners and some attributes requires root. The copy omits metadata that the calling user may not
//! set. If it omits the owner, it also omits the set-id bits. An attribute that cannot be set for another
//! reason, such as its size, is reported after all other metadata is set.

use super::content::written;
use larder::{FileKind, Metadata, Timestamp, Volume};
use larder_console::{Failure, Result, name};
use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod, fchown,
    fsetxattr, futimens, lsetxattr, utimensat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

/// The messages about attributes that could not be set. They are kept until all other metadata is set.
#[derive(Debug, Default)]
struct Failed(Vec<String>);

impl Failed {
    /// Records a failure to set the attribute `name`. If the destination does not support the attribute, or
    /// the user may not set it, the failure is only logged.
    fn note(&mut self, name: &[u8], set: Result<(), Errno>) {
        let name = name::escaped(name);
        match set {
            Ok(()) => {}
            Err(errno @ (Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL)) => {
                tracing::debug!("attribute {name} was not copied: {errno}");
            }
            Err(errno) => self
                .0
                .push(format!("cannot set attribute {name} on the copy: {errno}")),
        }
    }

    fn result(self) -> Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Failure::new(self.0.join(", ")))
        }
    }
}

/// The set-id bits of a mode.
const SET_ID: u16 = 0o6000;

/// Sets the metadata of an open file or directory.
pub(super) fn set_open(volume: &Volume, metadata: &Metadata, file: impl AsFd) -> Result<()> {
    let file = file.as_fd();
    let owned = permitted(fchown(file, owner(metadata), group(metadata)))?;
    let mut failed = Failed::default();
    for (name, value) in attributes(volume, metadata) {
        let set = fsetxattr(file, OsStr::from_bytes(&name), &value, XattrFlags::empty());
        failed.note(&name, set);
    }
    fchmod(file, mode(metadata, owned)).map_err(written)?;
    futimens(file, &times(metadata)).map_err(written)?;
    failed.result()
}

/// Sets the metadata of a special file or a symbolic link that was just created as `name` in `parent`.
/// A symbolic link has no permissions.
pub(super) fn set_unopened(
    volume: &Volume,
    metadata: &Metadata,
    parent: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<()> {
    let mut failed = Failed::default();
    let (uid, gid) = (owner(metadata), group(metadata));
    let owned = permitted(chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW))?;
    let mut path = format!("/proc/self/fd/{}/", parent.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    let path = OsStr::from_bytes(&path);
    for (name, value) in attributes(volume, metadata) {
        let set = lsetxattr(path, OsStr::from_bytes(&name), &value, XattrFlags::empty());
        failed.note(&name, set);
    }
    if metadata.kind != FileKind::Symlink {
        chmodat(parent, name, mode(metadata, owned), AtFlags::empty()).map_err(written)?;
    }
    let dated = utimensat(parent, name, &times(metadata), AtFlags::SYMLINK_NOFOLLOW);
    dated.map_err(written)?;
    failed.result()
}

/// Returns the extended attributes of a file. If one of them cannot be read, logs a warning and returns an
/// empty list, so that the file is copied without attributes.
fn attributes(volume: &Volume, metadata: &Metadata) -> Vec<(Vec<u8>, Vec<u8>)> {
    let read = volume.xattrs(metadata.ino).and_then(|names| {
        names
            .into_iter()
            .map(|name| Ok((volume.xattr(metadata.ino, &name)?, name)))
            .collect::<larder::Result<Vec<_>>>()
    });
    match read {
        Ok(found) => found
            .into_iter()
            .filter_map(|(value, name)| Some((name, value?)))
            .collect(),
        Err(error) => {
            tracing::warn!("extended attributes were not copied: {error}");
            Vec::new()
        }
    }
}

fn owner(metadata: &Metadata) -> Option<Uid> {
    // In chown(2), an ID of all ones means "unchanged".
    (metadata.uid != u32::MAX).then(|| Uid::from_raw(metadata.uid))
}

fn group(metadata: &Metadata) -> Option<Gid> {
    (metadata.gid != u32::MAX).then(|| Gid::from_raw(metadata.gid))
}

fn mode(metadata: &Metadata, owned: bool) -> Mode {
    let kept = if owned {
        metadata.permissions
    } else {
        metadata.permissions & !SET_ID
    };
    Mode::from_raw_mode(kept.into())
}

fn times(metadata: &Metadata) -> Timestamps {
    let time = |timestamp: Timestamp| Timespec {
        tv_sec: timestamp.seconds,
        tv_nsec: timestamp.nanoseconds.into(),
    };
    Timestamps {
        last_access: time(metadata.accessed),
        last_modification: time(metadata.modified),
    }
}

/// Converts the result of a system call: true if the call succeeded, false if it is not permitted.
fn permitted(result: Result<(), Errno>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        // `EINVAL` means that this user namespace does not map the owner.
        Err(Errno::PERM | Errno::INVAL) => Ok(false),
        Err(errno) => Err(written(errno)),
    }
}
