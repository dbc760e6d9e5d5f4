//! The metadata that a copy out of an image keeps: owner, attributes, permissions and times. They are
//! set in this order, because setting the owner clears set-id bits and capabilities, and setting an
//! access control list changes the permissions.
//!
//! Setting owners and some attributes requires root. Metadata that the process may not set is not
//! copied. If the owner or the group is not copied, the set-id bits are not copied either. After any
//! other error, the remaining metadata is still set.

use super::error::CopyError;
use crate::{Metadata, Timestamp, Volume, access_list};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod,
    fchown, fremovexattr, fsetxattr, futimens, removexattr, setxattr, utimensat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The set-id bits of a mode.
const SET_ID: u16 = 0o6000;

/// A file of the host whose metadata is set.
pub(super) enum Handle<'f> {
    /// A file that is open for reading or writing.
    Open(BorrowedFd<'f>),
    /// A path that [`descriptor::path`](super::descriptor::path) returned.
    Path(PathBuf),
}

impl Handle<'_> {
    fn chown(&self, uid: Option<Uid>, gid: Option<Gid>) -> Result<(), Errno> {
        match self {
            Self::Open(file) => fchown(file, uid, gid),
            Self::Path(path) => chownat(CWD, path, uid, gid, AtFlags::empty()),
        }
    }

    fn set_xattr(&self, name: &OsStr, value: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Open(file) => fsetxattr(file, name, value, XattrFlags::empty()),
            Self::Path(path) => setxattr(path, name, value, XattrFlags::empty()),
        }
    }

    fn remove_xattr(&self, name: &str) -> Result<(), Errno> {
        match self {
            Self::Open(file) => fremovexattr(file, name),
            Self::Path(path) => removexattr(path, name),
        }
    }

    fn chmod(&self, mode: Mode) -> Result<(), Errno> {
        match self {
            Self::Open(file) => fchmod(file, mode),
            Self::Path(path) => chmodat(CWD, path, mode, AtFlags::empty()),
        }
    }

    fn set_times(&self, times: &Timestamps) -> Result<(), Errno> {
        match self {
            Self::Open(file) => futimens(file, times),
            Self::Path(path) => utimensat(CWD, path, times, AtFlags::empty()),
        }
    }
}

/// Sets the metadata of `copy`. Returns all errors.
pub(super) fn set(volume: &Volume, metadata: &Metadata, copy: &Handle<'_>) -> Vec<CopyError> {
    let mut errors = Vec::new();
    let names = volume.xattrs(metadata.ino).unwrap_or_else(|error| {
        errors.push(CopyError::new("cannot read the attributes", error));
        Vec::new()
    });
    remove_inherited(&names, copy, &mut errors);
    let has_owner = match copy.chown(
        id(metadata.uid, Uid::from_raw),
        id(metadata.gid, Gid::from_raw),
    ) {
        Ok(()) => metadata.uid != UNCHANGED && metadata.gid != UNCHANGED,
        // `EINVAL` means that this user namespace does not map the owner.
        Err(Errno::PERM | Errno::INVAL) => false,
        Err(errno) => {
            errors.push(CopyError::copy(errno));
            false
        }
    };
    for name in names {
        set_attribute(volume, metadata, copy, &name, &mut errors);
    }
    if !metadata.is_symlink() {
        let removed = if has_owner { 0 } else { SET_ID };
        let mode = Mode::from_raw_mode((metadata.permissions & !removed).into());
        errors.extend(copy.chmod(mode).err().map(CopyError::copy));
    }
    let times = Timestamps {
        last_access: time(metadata.accessed),
        last_modification: time(metadata.modified),
    };
    errors.extend(copy.set_times(&times).err().map(CopyError::copy));
    errors
}

/// Removes the access control lists that the copy has inherited from its directory, or had before, if
/// `names` does not contain them.
fn remove_inherited(names: &[Vec<u8>], copy: &Handle<'_>, errors: &mut Vec<CopyError>) {
    for list in access_list::NAMES {
        if names.iter().any(|name| name == list.as_bytes()) {
            continue;
        }
        match copy.remove_xattr(list) {
            // `EACCES`: the copy is not a directory, so it cannot have a default list. `EPERM`: the copy belongs to
            // another user. Setting its permissions fails, too, and that error is returned.
            Ok(())
            | Err(Errno::NODATA | Errno::NOTSUP | Errno::INVAL | Errno::ACCESS | Errno::PERM) => {}
            Err(errno) => {
                let what = format!("cannot remove attribute {list} from the copy");
                errors.push(CopyError::new(what, errno));
            }
        }
    }
}

/// Sets the attribute `name`, unless the destination does not support it, or the process may not set
/// it.
fn set_attribute(
    volume: &Volume,
    metadata: &Metadata,
    copy: &Handle<'_>,
    name: &[u8],
    errors: &mut Vec<CopyError>,
) {
    let shown = name.escape_ascii();
    let value = match volume.xattr(metadata.ino, name) {
        Ok(Some(value)) => value,
        Ok(None) => return,
        Err(error) => {
            let what = format!("cannot read attribute {shown}");
            errors.push(CopyError::new(what, error));
            return;
        }
    };
    match copy.set_xattr(OsStr::from_bytes(name), &value) {
        Ok(()) => {}
        Err(errno @ (Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL)) => {
            tracing::debug!("attribute {shown} was not copied: {errno}");
        }
        Err(errno) => {
            let what = format!("cannot set attribute {shown} on the copy");
            errors.push(CopyError::new(what, errno));
        }
    }
}

/// In chown(2), this ID means that the present owner or group is kept.
const UNCHANGED: u32 = u32::MAX;

fn id<T>(raw: u32, of: impl Fn(u32) -> T) -> Option<T> {
    (raw != UNCHANGED).then(|| of(raw))
}

fn time(timestamp: Timestamp) -> Timespec {
    Timespec {
        tv_sec: timestamp.seconds,
        tv_nsec: timestamp.nanoseconds.into(),
    }
}
