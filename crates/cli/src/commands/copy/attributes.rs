//! What a copy keeps of a file beside its content: owner, attributes,
//! permissions, times, in this order, since each may change those before it.
//!
//! Owners need root, and so do some attributes: what is not permitted is left
//! out, and set-id bits with the owner that they would have stood for.

use larder::{Metadata, Timestamp, Volume};
use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod, fchown,
    fsetxattr, futimens, lsetxattr, utimensat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

/// The set-id bits of a mode.
const SET_ID: u16 = 0o6000;

/// Sets what an open file or directory keeps.
pub(super) fn set_open(volume: &Volume, metadata: &Metadata, file: impl AsFd) -> Result<(), Errno> {
    let file = file.as_fd();
    let owned = permitted(fchown(file, owner(metadata), group(metadata)))?;
    for (name, value) in attributes(volume, metadata) {
        let set = fsetxattr(file, OsStr::from_bytes(&name), &value, XattrFlags::empty());
        tolerated(&name, set)?;
    }
    fchmod(file, mode(metadata, owned))?;
    futimens(file, &times(metadata))
}

/// Sets what a special file keeps, which was just made as `name` in `parent`.
pub(super) fn set_special(
    volume: &Volume,
    metadata: &Metadata,
    parent: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<(), Errno> {
    let owned = set_unopened(volume, metadata, parent, name)?;
    chmodat(parent, name, mode(metadata, owned), AtFlags::empty())?;
    utimensat(parent, name, &times(metadata), AtFlags::SYMLINK_NOFOLLOW)
}

/// Sets what a symbolic link keeps: it has no permissions.
pub(super) fn set_link(
    volume: &Volume,
    metadata: &Metadata,
    parent: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<(), Errno> {
    set_unopened(volume, metadata, parent, name)?;
    utimensat(parent, name, &times(metadata), AtFlags::SYMLINK_NOFOLLOW)
}

/// Owner and attributes of something that cannot be opened; true if it is owned.
fn set_unopened(
    volume: &Volume,
    metadata: &Metadata,
    parent: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<bool, Errno> {
    let (uid, gid) = (owner(metadata), group(metadata));
    let owned = permitted(chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW))?;
    let mut path = format!("/proc/self/fd/{}/", parent.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    for (attribute, value) in attributes(volume, metadata) {
        let set = lsetxattr(
            OsStr::from_bytes(&path),
            OsStr::from_bytes(&attribute),
            &value,
            XattrFlags::empty(),
        );
        tolerated(&attribute, set)?;
    }
    Ok(owned)
}

/// Attributes that can be read; the image's damage is told, not a reason to stop.
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
            tracing::warn!("attributes are left out: {error}");
            Vec::new()
        }
    }
}

fn owner(metadata: &Metadata) -> Option<Uid> {
    // All ones would mean "as it is".
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

/// True if done, false if not permitted.
fn permitted(result: Result<(), Errno>) -> Result<bool, Errno> {
    match result {
        Ok(()) => Ok(true),
        // EINVAL: an owner that this user namespace does not know.
        Err(Errno::PERM | Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Lets pass what the destination or our rights do not allow.
fn tolerated(name: &[u8], result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(errno @ (Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL)) => {
            let name = String::from_utf8_lossy(name);
            tracing::debug!("attribute {name} is left out: {errno}");
            Ok(())
        }
        result => result,
    }
}
