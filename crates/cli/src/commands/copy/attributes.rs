//! What a copy keeps of a file beside its content: owner, attributes,
//! permissions, times, in this order, since each may change those before it.
//!
//! Owners need root, and so do some attributes: what is not permitted is left
//! out, and set-id bits with the owner that they would have stood for. An
//! attribute that does not fit is told, once all else is set.

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

/// Messages on attributes that could not be set, kept until all else is set.
#[derive(Debug, Default)]
struct Failed(Vec<String>);

impl Failed {
    /// Notes a failure, but for what the destination or our rights do not allow.
    fn note(&mut self, name: &[u8], set: Result<(), Errno>) {
        let name = name::escaped(name);
        match set {
            Ok(()) => {}
            Err(errno @ (Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL)) => {
                tracing::debug!("attribute {name} is left out: {errno}");
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

/// Sets what an open file or directory keeps.
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

/// Sets what a special file or a symbolic link keeps, which was just made as `name` in `parent`. A
/// symbolic link has no permissions.
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
fn permitted(result: Result<(), Errno>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        // EINVAL: an owner that this user namespace does not know.
        Err(Errno::PERM | Errno::INVAL) => Ok(false),
        Err(errno) => Err(written(errno)),
    }
}
