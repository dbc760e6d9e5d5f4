//! The metadata that a copy into an image keeps: owner, attributes, permissions and times. They are
//! set in this order, because setting the owner clears set-id bits and capabilities, and setting an
//! access control list changes the permissions.
//!
//! No privilege is required: a user who may write to the image file may set any owner in the image.

use super::descriptor;
use super::error::CopyError;
use super::rules::{Rules, attribute_value};
use super::source::Source;
use crate::{
    FileTimes, Ino, Result, SetAttributes, SetTime, Timestamp, Volume, XattrMode, access_list,
};
use rustix::fs::{fgetxattr, flistxattr, getxattr, listxattr};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// The maximum length in bytes of a list of attribute names, and of the value of an attribute, in
/// Linux.
const MAX_XATTR_BYTES: usize = 64 << 10;

/// The times that a copy gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// The times of access and of modification of the source.
    All,
    /// The time of modification of the source, also as the time of access.
    Modification,
}

/// Sets the metadata of `copy` to that of `source`. Returns all errors. If only attributes could not
/// be set, all other metadata is set.
pub(super) fn set(
    volume: &Volume,
    copy: Ino,
    source: &Source,
    rules: &dyn Rules,
    times: Times,
) -> Vec<CopyError> {
    let metadata = &source.metadata;
    let (uid, gid) = rules.owner(metadata.uid(), metadata.gid());
    let owner = SetAttributes {
        uid: Some(uid),
        gid: Some(gid),
        ..SetAttributes::default()
    };
    let mut errors = Vec::new();
    let set = volume.set_attributes(copy, &owner);
    errors.extend(set.err().map(CopyError::copy));
    if let Err(error) = set_xattrs(volume, copy, source, rules, &mut errors) {
        errors.push(error);
    }
    let times = times_of(metadata, times);
    let last = SetAttributes {
        permissions: (!metadata.is_symlink()).then(|| permissions_of(metadata)),
        ..set_to(times)
    };
    let set = volume.set_attributes(copy, &last);
    errors.extend(set.err().map(CopyError::copy));
    errors
}

/// Sets the extended attributes of `copy`, a new file that has inherited none. Returns all errors.
pub(super) fn set_new(
    volume: &Volume,
    copy: Ino,
    source: &Source,
    rules: &dyn Rules,
) -> Vec<CopyError> {
    let mut errors = Vec::new();
    match xattr_names(source) {
        Ok(names) => copy_xattrs(volume, copy, source, (&names, rules), &mut errors),
        Err(error) => errors.push(error),
    }
    errors
}

/// Returns the permissions of a file of the host.
pub(super) fn permissions_of(metadata: &Metadata) -> u16 {
    u16::try_from(metadata.mode() & 0o7777).unwrap_or(0)
}

/// Returns the times that the copy of a file of the host gets.
pub(super) fn times_of(metadata: &Metadata, times: Times) -> FileTimes {
    let modified = time(metadata.mtime(), metadata.mtime_nsec());
    FileTimes {
        accessed: match times {
            Times::All => time(metadata.atime(), metadata.atime_nsec()),
            Times::Modification => modified,
        },
        modified,
    }
}

fn set_to(times: FileTimes) -> SetAttributes {
    SetAttributes {
        atime: Some(SetTime::To(times.accessed)),
        mtime: Some(SetTime::To(times.modified)),
        ..SetAttributes::default()
    }
}

/// Sets the times of `copy`.
pub(super) fn set_times(
    volume: &Volume,
    copy: Ino,
    metadata: &Metadata,
    times: Times,
) -> Result<()> {
    let times = set_to(times_of(metadata, times));
    volume.set_attributes(copy, &times).map(drop)
}

/// Copies the extended attributes, except those that the process may not read, and those that ext4
/// does not support. Removes the access control lists that the copy has inherited, or had before, if
/// the source has none.
fn set_xattrs(
    volume: &Volume,
    copy: Ino,
    source: &Source,
    rules: &dyn Rules,
    errors: &mut Vec<CopyError>,
) -> Result<(), CopyError> {
    let names = xattr_names(source)?;
    let present = volume.xattrs(copy).map_err(CopyError::copy)?;
    for list in access_list::NAMES.map(str::as_bytes) {
        let is_copied = names.iter().any(|name| name == list);
        if !is_copied && present.iter().any(|name| name == list) {
            volume.remove_xattr(copy, list).map_err(CopyError::copy)?;
        }
    }
    copy_xattrs(volume, copy, source, (&names, rules), errors);
    Ok(())
}

/// Returns the names of the extended attributes of `source`, sorted: the order on the host must not determine the bytes
/// of the image.
fn xattr_names(source: &Source) -> Result<Vec<Vec<u8>>, CopyError> {
    let list = |buffer: &mut [u8]| {
        if is_readable(source) {
            flistxattr(&source.file, buffer)
        } else {
            listxattr(descriptor::path(&source.file), buffer)
        }
    };
    let mut short = [0; 256];
    let mut long = Vec::new();
    let mut listed = list(&mut short);
    let mut buffer = &short[..];
    if listed == Err(Errno::RANGE) {
        long.resize(MAX_XATTR_BYTES, 0);
        listed = list(&mut long);
        buffer = &long;
    }
    let len = match listed {
        Ok(len) => len,
        Err(Errno::NOTSUP) => 0,
        Err(errno) => return Err(CopyError::new("cannot list the attributes", errno)),
    };
    let names = buffer.get(..len).unwrap_or_default();
    let names = names.split(|&byte| byte == 0).map(<[u8]>::to_vec);
    let mut names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    Ok(names)
}

fn is_readable(source: &Source) -> bool {
    source.metadata.is_file() || source.metadata.is_dir()
}

/// Copies the attributes `names`. Errors of single attributes are added to `errors`.
fn copy_xattrs(
    volume: &Volume,
    copy: Ino,
    source: &Source,
    (names, rules): (&[Vec<u8>], &dyn Rules),
    errors: &mut Vec<CopyError>,
) {
    if names.is_empty() {
        return;
    }
    let path = descriptor::path(&source.file);
    let mut value = vec![0; MAX_XATTR_BYTES];
    for name in names {
        let host_name = OsStr::from_bytes(name);
        let read = if is_readable(source) {
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
        let value = attribute_value(rules, name, value.get(..len).unwrap_or_default());
        errors.extend(set_xattr(volume, copy, name, &value).err());
    }
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

fn time(seconds: i64, nanoseconds: i64) -> Timestamp {
    Timestamp {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
    }
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
