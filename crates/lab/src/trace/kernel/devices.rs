//! The machine's block devices, and the sizes of blocks on them.

use super::events::Devices;
use crate::trace::import::device_number;
use larder_block::mounts::{self, MountEntry};
use rustix::fs::{Dev, makedev};
use std::collections::HashMap;
use std::fs;

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
        block_bytes: block_bytes(&mounts::list().unwrap_or_default()),
    }
}

/// Returns the block size of each mounted device.
fn block_bytes(mounts: &[MountEntry]) -> HashMap<u32, u64> {
    let sizes = mounts.iter().filter_map(|mount| {
        let device = makedev(mount.device_major, mount.device_minor);
        // Devices without a major number have no blocks, and their mounts may be remote.
        let is_device = mount.device_major != 0;
        let size = is_device.then(|| rustix::fs::statvfs(&mount.mountpoint).ok())??;
        Some((kernel_number(device), size.f_bsize))
    });
    sizes.collect()
}

/// Parses `254:0`.
fn number(text: &str) -> Option<u32> {
    device_number(text.split_once(':')?)
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
        let mounts = mounts::parse(
            b"22 27 0:21 / /proc rw - proc proc rw\n27 1 254:0 / / rw - ext4 /dev/vda rw\n",
        );
        assert_eq!(
            block_bytes(&mounts).into_keys().collect::<Vec<_>>(),
            [254 << 20]
        );
    }
}
