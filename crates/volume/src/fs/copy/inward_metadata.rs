//! The metadata that a copy into an image keeps: owner, attributes, permissions and times. They are
//! set in this order, because setting the owner clears set-id bits and capabilities, and setting an
//! access control list changes the permissions.
//!
//! No privilege is required: a user who may write to the image file may set any owner in the image.

use super::descriptor;
use super::error::CopyError;
use super::source::Source;
use crate::{Ino, Result, SetAttributes, SetTime, Timestamp, Volume, XattrMode, access_list};
use rustix::fs::{fgetxattr, flistxattr, getxattr, listxattr};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// The maximum length in bytes of a list of attribute names, and of the value of an attribute, in
/// Linux.
const MAX_XATTR_BYTES: usize = 64 << 10;

/// Sets the metadata of `copy` to that of `source`. Returns all errors. If only attributes could not
/// be set, all other metadata is set.
pub(super) fn set(volume: &Volume, copy: Ino, source: &Source) -> Vec<CopyError> {
    let metadata = &source.metadata;
    let owner = SetAttributes {
        uid: Some(metadata.uid()),
        gid: Some(metadata.gid()),
        ..SetAttributes::default()
    };
    let mut errors = Vec::new();
    let set = volume.set_attributes(copy, &owner);
    errors.extend(set.err().map(CopyError::copy));
    if let Err(error) = set_xattrs(volume, copy, source, &mut errors) {
        errors.push(error);
    }
    let permissions = SetAttributes {
        permissions: (!metadata.is_symlink())
            .then(|| u16::try_from(metadata.mode() & 0o7777).unwrap_or(0)),
        ..SetAttributes::default()
    };
    let set = volume.set_attributes(copy, &permissions);
    let set = set.and_then(|_| set_times(volume, copy, metadata));
    errors.extend(set.err().map(CopyError::copy));
    errors
}

/// Sets the times of `copy`.
pub(super) fn set_times(volume: &Volume, copy: Ino, metadata: &Metadata) -> Result<()> {
    let times = SetAttributes {
        atime: Some(time(metadata.atime(), metadata.atime_nsec())),
        mtime: Some(time(metadata.mtime(), metadata.mtime_nsec())),
        ..SetAttributes::default()
    };
    volume.set_attributes(copy, &times).map(drop)
}

/// Copies the extended attributes, except those that the process may not read, and those that ext4
/// does not support. Removes the access control lists that the copy has inherited, or had before, if
/// the source has none.
fn set_xattrs(
    volume: &Volume,
    copy: Ino,
    source: &Source,
    errors: &mut Vec<CopyError>,
) -> Result<(), CopyError> {
    let is_readable = source.metadata.is_file() || source.metadata.is_dir();
    let path = descriptor::path(&source.file);
    let mut buffer = vec![0; MAX_XATTR_BYTES];
    let listed = if is_readable {
        flistxattr(&source.file, buffer.as_mut_slice())
    } else {
        listxattr(&path, buffer.as_mut_slice())
    };
    let len = match listed {
        Ok(len) => len,
        Err(Errno::NOTSUP) => 0,
        Err(errno) => return Err(CopyError::new("cannot list the attributes", errno)),
    };
    buffer.truncate(len);
    let names: Vec<_> = buffer
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .collect();
    let present = volume.xattrs(copy).map_err(CopyError::copy)?;
    for list in access_list::NAMES.map(str::as_bytes) {
        if !names.contains(&list) && present.iter().any(|name| name == list) {
            volume.remove_xattr(copy, list).map_err(CopyError::copy)?;
        }
    }
    let mut value = vec![0; MAX_XATTR_BYTES];
    for name in names {
        let host_name = OsStr::from_bytes(name);
        let read = if is_readable {
            fgetxattr(&source.file, host_name, value.as_mut_slice())
        } else {
            getxattr(&path, host_name, value.as_mut_slice())
        };
        let len = match read {
            Ok(len) => len,
            // The attribute was removed after the names were listed, or the process may not read it.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::NOTSUP) => continue,
            Err(errno) => {
                let what = format!("cannot read attribute {}", name.escape_ascii());
                errors.push(CopyError::new(what, errno));
                continue;
            }
        };
        let value = value.get(..len).unwrap_or_default();
        errors.extend(set_xattr(volume, copy, name, value).err());
    }
    Ok(())
}

/// Sets an extended attribute, unless ext4 does not support it.
fn set_xattr(volume: &Volume, copy: Ino, name: &[u8], value: &[u8]) -> Result<(), CopyError> {
    let shown = name.escape_ascii();
    match volume.set_xattr(copy, name, value, XattrMode::Any) {
        Ok(()) => Ok(()),
        Err(error) if error.errno() == Errno::OPNOTSUPP => {
            tracing::debug!("attribute {shown} was not copied: {error}");
            Ok(())
        }
        Err(error) => {
            let what = format!("cannot set attribute {shown} on the copy");
            Err(CopyError::new(what, error))
        }
    }
}

fn time(seconds: i64, nanoseconds: i64) -> SetTime {
    SetTime::To(Timestamp {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;

    #[test]
    fn attributes_that_ext4_does_not_support_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("disk.img");
        if larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M").is_err() {
            larder_testkit::report_skipped("mke2fs is not installed");
            return;
        }
        let fs = OpenOptions::new().read_write(true).open(&image).unwrap();
        fs.write("/file", "").unwrap();
        let ino = fs.metadata("/file").unwrap().ino;
        for name in ["system.nfs4_acl", "btrfs.compression"] {
            set_xattr(fs.volume(), ino, name.as_bytes(), b"value").unwrap();
        }
        let error = set_xattr(fs.volume(), ino, b"user.large", &[0; 9000]).unwrap_err();
        assert!(error.to_string().contains("user.large"), "{error}");
    }
}
