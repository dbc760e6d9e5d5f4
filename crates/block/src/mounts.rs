//! The kernel's list of mounts, `/proc/self/mountinfo`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// An entry in the list of mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The source. For a mount of Larder, this is the path of the image, unless `fsname` was given.
    pub source: OsString,
    /// Options of the file system, such as `user_id=1000`.
    pub super_options: String,
}

impl MountEntry {
    /// Returns whether this is a FUSE mount. The type does not show whether Larder created it, because the user can
    /// choose the subtype, which is the part of the type after `fuse.`.
    #[must_use]
    pub fn is_fuse(&self) -> bool {
        self.fs_type == "fuse" || self.fs_type.starts_with("fuse.")
    }

    /// Returns the ID of the user who created the mount, or `None` if this is not a FUSE mount.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        self.super_options
            .split(',')
            .find_map(|option| option.strip_prefix("user_id="))
            .and_then(|uid| uid.parse().ok())
    }

    /// Returns whether the file system has the option `name`, which has no value.
    #[must_use]
    pub fn has_super_option(&self, name: &str) -> bool {
        self.super_options.split(',').any(|option| option == name)
    }
}

/// Returns all mounts of this mount namespace. If mounts are stacked at a mount point, the topmost is
/// the last.
pub fn list() -> io::Result<Vec<MountEntry>> {
    fs::read("/proc/self/mountinfo").map(|list| parse(&list))
}

/// Parses a list of mounts. Malformed lines are skipped.
#[must_use]
pub fn parse(list: &[u8]) -> Vec<MountEntry> {
    let lines = list.split(|&byte| byte == b'\n');
    lines.filter_map(parse_line).collect()
}

/// Parses a line of the list: `id parent major:minor root mountpoint options [tags] - type source
/// super-options`. Spaces in names are written as octal escapes.
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

/// Replaces the octal escapes, such as `\040`, with which the kernel writes spaces, tabs, newlines and
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
    use std::path::Path;

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
        assert!(entry.has_super_option("ro"));
        assert!(!entry.has_super_option("r") && !entry.has_super_option("user_id"));
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
}
