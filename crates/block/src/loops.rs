//! Finds loop devices that are attached to an image. They do not lock the image, so locks do not
//! show them.
//!
//! `/sys/block` contains the path of each loop device's file. An image is not recognized if it was
//! deleted, or if its path does not exist in this mount namespace.

use rustix::fs::Stat;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the path of a loop device that is attached to the file, if there is one.
pub(crate) fn attached_to(file: &Stat) -> Option<PathBuf> {
    let devices = fs::read_dir("/sys/block").ok()?;
    devices.flatten().find_map(|device| {
        let name = device.file_name();
        if !name.as_bytes().starts_with(b"loop") {
            return None;
        }
        let path = fs::read(device.path().join("loop/backing_file")).ok()?;
        let path = path.strip_suffix(b"\n").unwrap_or(&path);
        let metadata = fs::metadata(OsStr::from_bytes(path)).ok()?;
        let is_same = (metadata.dev(), metadata.ino()) == (file.st_dev, file.st_ino);
        is_same.then(|| Path::new("/dev").join(name))
    })
}

#[cfg(test)]
mod tests {
    use crate::{Error, FileDevice, FileRange};
    use larder_testkit::report_skipped;
    use std::process::Command;

    #[test]
    fn image_attached_to_a_loop_device_is_not_opened_for_writing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let losetup = |args: &[&str]| Command::new("losetup").args(args).arg(file.path()).output();
        let output = match losetup(&["--find", "--show"]) {
            Ok(output) if output.status.success() => output,
            _ => return report_skipped("no loop device is available"),
        };
        let device = String::from_utf8(output.stdout).unwrap();
        let opened = FileDevice::open_writable(file.path(), FileRange::default());
        let read = FileDevice::open(file.path(), FileRange::default());
        let detached = Command::new("losetup").args(["-d", device.trim()]).status();
        assert!(detached.unwrap().success());
        match opened {
            Err(Error::Attached { device: named, .. }) => {
                assert_eq!(named.to_str(), Some(device.trim()));
            }
            other => panic!("{other:?}"),
        }
        read.unwrap();
    }
}
