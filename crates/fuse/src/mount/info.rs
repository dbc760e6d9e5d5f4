//! Reads the kernel's list of mounts, `/proc/self/mountinfo`.
//!
//! A mount point is not examined with stat(2). The kernel would send a request to the mount's server,
//! which answers only the user who mounted, and which may have ended. The list does not depend on servers.

use crate::{Error, Result};
use larder_observe::Mount;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// An entry in the list of mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MountEntry {
    /// Major part of the device number.
    pub device_major: u32,
    /// Minor part of the device number.
    pub device_minor: u32,
    /// The mount point.
    pub mountpoint: PathBuf,
    /// File-system type, such as `fuse.larder`.
    pub fs_type: String,
    /// The source, which is the path of the image for a larder mount unless `fsname` was given.
    pub source: OsString,
    /// Options of the file system, such as `user_id=1000`.
    pub super_options: String,
}

impl MountEntry {
    /// Returns whether this is a FUSE mount. Larder may have created any FUSE mount, because the user can
    /// choose the subtype, the part of the type after `fuse.`.
    #[must_use]
    pub fn is_fuse(&self) -> bool {
        self.fs_type == "fuse" || self.fs_type.starts_with("fuse.")
    }

    /// Returns the ID of the user who mounted, or `None` if this is not a FUSE mount.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        self.super_options
            .split(',')
            .find_map(|option| option.strip_prefix("user_id="))
            .and_then(|uid| uid.parse().ok())
    }

    /// Returns the identity of the mount, with which its server can be queried.
    ///
    /// # Errors
    /// Returns [`Error::NotLarder`] if this is not a FUSE mount.
    pub fn server(&self) -> Result<Mount> {
        let owner = self.owner().filter(|_| self.is_fuse());
        let owner = owner.ok_or_else(|| Error::NotLarder {
            mountpoint: self.mountpoint.clone(),
            fs_type: self.fs_type.clone(),
        })?;
        Ok(Mount {
            mountpoint: self.mountpoint.clone(),
            device: (self.device_major, self.device_minor),
            owner,
        })
    }
}

/// Returns the mount at `mountpoint`. If several mounts are stacked there, returns the topmost.
///
/// # Errors
/// Returns [`Error::NotMounted`] if nothing is mounted there.
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

/// Returns whether a FUSE mount of `source` exists in this mount namespace.
///
/// # Errors
/// Returns [`Error::MountInfo`] if the list of mounts cannot be read.
pub fn is_mounted(source: &OsStr) -> Result<bool> {
    let is_it = |entry: &MountEntry| entry.is_fuse() && entry.source == source;
    Ok(entries()?.iter().any(is_it))
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
/// Returns [`Error::Mountpoint`] if the path does not exist, and [`Error::MountInfo`] if the list of mounts
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
fn entries() -> Result<Vec<MountEntry>> {
    let list = fs::read("/proc/self/mountinfo").map_err(Error::MountInfo)?;
    let lines = list.split(|&byte| byte == b'\n');
    Ok(lines.filter_map(parse_line).collect())
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

/// Parses a line of the list: `id parent major:minor root mountpoint options [tags] - type source
/// super-options`. Blanks in names are written as octal escapes.
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let mountpoint = fields.nth(1)?;
    fields.find(|&field| field == b"-")?;
    let fs_type = fields.next()?;
    let source = fields.next()?;
    let super_options = fields.next().unwrap_or_default();
    Some(MountEntry {
        device_major: major.parse().ok()?,
        device_minor: minor.parse().ok()?,
        mountpoint: PathBuf::from(unescape(mountpoint)),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
        source: unescape(source),
        super_options: String::from_utf8_lossy(super_options).into_owned(),
    })
}

/// Replaces the octal escapes, such as `\040`, with which the kernel writes blanks, tabs, newlines and
/// backslashes.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(octal_byte);
        if let (b'\\', Some(escaped)) = (byte, octal) {
            bytes.push(escaped);
            rest = &tail[3..];
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    OsString::from_vec(bytes)
}

fn octal_byte(digits: &[u8]) -> Option<u8> {
    let text = OsStr::from_bytes(digits).to_str()?;
    u8::from_str_radix(text, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_with_tags_and_blanks_is_parsed() {
        let entry = parse_line(
            b"42 25 0:57 / /mnt/a\\040b ro,nosuid,nodev shared:7 master:1 - fuse.larder /x\\011y.img ro,user_id=1000,group_id=100",
        )
        .unwrap();
        assert_eq!((entry.device_major, entry.device_minor), (0, 57));
        assert_eq!(entry.mountpoint, Path::new("/mnt/a b"));
        assert_eq!(entry.fs_type, "fuse.larder");
        assert_eq!(entry.source, "/x\ty.img");
        assert_eq!(entry.owner(), Some(1000));
        assert!(entry.is_fuse());
    }

    #[test]
    fn line_without_tags_is_parsed() {
        let entry = parse_line(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw").unwrap();
        assert_eq!(entry.fs_type, "ext4");
        assert_eq!(entry.owner(), None);
        assert!(!entry.is_fuse());
    }

    #[test]
    fn malformed_lines_are_skipped() {
        for line in [
            "",
            "1",
            "1 0 8:1 / /",
            "1 0 x / / rw - ext4 a b",
            "1 0 8:1 / / rw ext4 a b",
        ] {
            assert_eq!(parse_line(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn backslash_that_escapes_nothing_stays() {
        assert_eq!(unescape(b"a\\9b\\"), "a\\9b\\");
        assert_eq!(unescape(b"\\134040"), "\\040");
    }

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
