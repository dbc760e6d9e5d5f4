//! The machine's block devices, and the sizes of blocks on them.

use super::events::Devices;
use crate::trace::import::device_number;
use rustix::fs::Dev;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

/// Returns a device number in the kernel's internal form, which differs from the form of stat(2)
/// and from the 16-bit form.
pub(super) fn kernel_number(device: Dev) -> u32 {
    rustix::fs::major(device) << 20 | rustix::fs::minor(device)
}

/// Returns the current devices of this machine.
pub(super) fn of_machine() -> Devices {
    let names = fs::read_dir("/sys/dev/block")
        .into_iter()
        .flatten()
        .flatten();
    let numbers = names.filter_map(|entry| number(entry.file_name().to_str()?));
    Devices {
        numbers: numbers.collect(),
        block_bytes: block_bytes(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()),
    }
}

/// Returns the block size of each mounted device.
fn block_bytes(mountinfo: &str) -> HashMap<u32, u64> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let number = number(fields.nth(2)?)?;
        // Devices without a major number have no blocks, and their mounts may be remote.
        let path = PathBuf::from(unescaped(fields.nth(1)?));
        let is_device = number >> 20 != 0;
        let size = is_device.then(|| rustix::fs::statvfs(&path).ok())??.f_bsize;
        Some((number, size))
    });
    mounts.collect()
}

/// Parses `254:0`.
fn number(text: &str) -> Option<u32> {
    device_number(text.split_once(':')?)
}

/// Resolves the escapes of mountinfo for spaces, tabs, newlines and backslashes.
fn unescaped(path: &str) -> String {
    let marks = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    let undo = |path: String, (mark, is): (&str, &str)| path.replace(mark, is);
    marks.into_iter().fold(path.to_owned(), undo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_have_the_kernels_form() {
        assert_eq!(number("7:3"), Some(7 << 20 | 3));
        assert_eq!(number("7:1048576"), None);
        assert_eq!(number("x"), None);
        assert_eq!(
            kernel_number(rustix::fs::makedev(7, 0x12c)),
            7 << 20 | 0x12c
        );
    }

    #[test]
    fn mount_without_a_device_has_no_block_size() {
        let mountinfo =
            "22 27 0:21 / /proc rw - proc proc rw\n27 1 254:0 / / rw - ext4 /dev/vda rw\n";
        assert_eq!(
            block_bytes(mountinfo).into_keys().collect::<Vec<_>>(),
            [254 << 20]
        );
        assert_eq!(unescaped("/a\\040b\\134"), "/a b\\");
    }
}
