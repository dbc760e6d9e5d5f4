//! The metadata that a copy into an image keeps: owner, attributes, permissions and times. They are set in
//! this order, because setting the owner clears set-id bits and capabilities, and setting an access control
//! list changes the permissions.
//!
//! No privilege is required: a user who may write to the image file may set any owner in the image.

use crate::failure::without_inode;
use larder::{Ino, SetAttributes, SetTime, Timestamp, Volume, XattrMode};
use larder_console::name;
use rustix::fs::{lgetxattr, llistxattr};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The maximum length in bytes of a list of attribute names, and of an attribute's value, in Linux.
const MAX_XATTR_BYTES: usize = 64 << 10;

/// Metadata that could not be kept.
#[derive(Debug)]
pub(super) struct NotKept {
    pub message: String,
    /// Whether the reason is that the image has no space.
    pub is_no_space: bool,
}

impl NotKept {
    fn of(what: &str, error: &larder::Error) -> Self {
        Self {
            message: format!("{what}: {}", without_inode(error)),
            is_no_space: error.errno() == Errno::NOSPC,
        }
    }
}

/// Sets the metadata of `copy` to that of the file at `path`.
///
/// # Errors
/// Returns what could not be set. If only attributes could not be set, all other metadata is set.
pub(super) fn set(
    volume: &Volume,
    copy: Ino,
    path: &Path,
    metadata: &Metadata,
) -> Result<(), NotKept> {
    let failed = |error: larder::Error| NotKept::of("cannot write the copy", &error);
    let owner = SetAttributes {
        uid: Some(metadata.uid()),
        gid: Some(metadata.gid()),
        ..SetAttributes::default()
    };
    volume.set_attributes(copy, &owner).map_err(failed)?;
    let not_kept = set_xattrs(volume, copy, path);
    let permissions = SetAttributes {
        permissions: (!metadata.is_symlink())
            .then(|| u16::try_from(metadata.mode() & 0o7777).unwrap_or(0)),
        ..SetAttributes::default()
    };
    volume.set_attributes(copy, &permissions).map_err(failed)?;
    set_times(volume, copy, metadata).map_err(failed)?;
    if not_kept.is_empty() {
        return Ok(());
    }
    let messages: Vec<_> = not_kept
        .iter()
        .map(|not_kept| not_kept.message.as_str())
        .collect();
    Err(NotKept {
        message: messages.join(", "),
        is_no_space: not_kept.iter().any(|not_kept| not_kept.is_no_space),
    })
}

/// Sets the times of `copy`.
pub(super) fn set_times(volume: &Volume, copy: Ino, metadata: &Metadata) -> larder::Result<()> {
    let times = SetAttributes {
        atime: Some(time(metadata.atime(), metadata.atime_nsec())),
        mtime: Some(time(metadata.mtime(), metadata.mtime_nsec())),
        ..SetAttributes::default()
    };
    volume.set_attributes(copy, &times).map(drop)
}

/// Copies the extended attributes of the file at `path` to `copy`. Skips attributes that the calling user
/// may not read. Returns a message for each other attribute that could not be read or set.
fn set_xattrs(volume: &Volume, copy: Ino, path: &Path) -> Vec<NotKept> {
    let mut names = vec![0; MAX_XATTR_BYTES];
    let len = match llistxattr(path, names.as_mut_slice()) {
        Ok(len) => len,
        Err(Errno::NOTSUP) => return Vec::new(),
        Err(errno) => {
            return vec![NotKept {
                message: format!("cannot list the attributes: {errno}"),
                is_no_space: false,
            }];
        }
    };
    let mut not_kept = Vec::new();
    let mut value = vec![0; MAX_XATTR_BYTES];
    for name in names[..len]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
    {
        let len = match lgetxattr(path, OsStr::from_bytes(name), value.as_mut_slice()) {
            Ok(len) => len,
            // The attribute was removed after the names were listed, or the user may not read it.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::NOTSUP) => continue,
            Err(errno) => {
                not_kept.push(NotKept {
                    message: format!("cannot read attribute {}: {errno}", name::escaped(name)),
                    is_no_space: false,
                });
                continue;
            }
        };
        if let Err(error) = volume.set_xattr(copy, name, &value[..len], XattrMode::Any) {
            let what = format!("cannot set attribute {} on the copy", name::escaped(name));
            not_kept.push(NotKept::of(&what, &error));
        }
    }
    not_kept
}

fn time(seconds: i64, nanoseconds: i64) -> SetTime {
    SetTime::To(Timestamp {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
    })
}
