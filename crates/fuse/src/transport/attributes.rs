//! Converts attributes between the FUSE protocol and the volume.

use crate::node::NodeId;
use crate::operations::Entry;
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use larder::{DeviceNumber, Fallocate, FileKind, Make, Metadata, SetTime, Timestamp, XattrMode};
use rustix::fs::FallocateFlags;
use std::time::{Duration, SystemTime};

/// The preferred size of a read in bytes, as stat(2) returns it.
const BLOCK_SIZE_BYTES: u32 = 4096;

/// Returns the attributes for a reply that contains a node number. The inode number in the result is the
/// node number, because `fuser` uses it as such in these replies.
pub(super) fn of_entry(entry: &Entry) -> FileAttr {
    of_metadata(entry.node.0, &entry.metadata)
}

/// Converts `metadata` to attributes with the inode number `ino`.
pub(super) fn of_metadata(ino: u64, metadata: &Metadata) -> FileAttr {
    FileAttr {
        size: metadata.size_bytes,
        blocks: metadata.blocks_512,
        atime: time(metadata.accessed),
        mtime: time(metadata.modified),
        ctime: time(metadata.changed),
        perm: metadata.permissions,
        nlink: metadata.links,
        uid: metadata.uid,
        gid: metadata.gid,
        rdev: device_number(metadata.rdev_major, metadata.rdev_minor),
        ..unknown(NodeId(ino), file_type(metadata.kind))
    }
}

/// Returns attributes for a node of which only the type is known. Node number 0 stands for a file that does
/// not exist.
pub(super) fn unknown(node: NodeId, kind: FileType) -> FileAttr {
    FileAttr {
        ino: INodeNo(node.0),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        // The protocol of Linux has no field for the creation time.
        crtime: SystemTime::UNIX_EPOCH,
        kind,
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_SIZE_BYTES,
        flags: 0,
    }
}

pub(super) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

/// Returns the kernel's 32-bit device number. From the lowest bit, it consists of the low 8 bits of the minor
/// number, the 12 bits of the major number, and the high 12 bits of the minor number.
fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)
}

fn device_of(number: u32) -> DeviceNumber {
    DeviceNumber {
        major: (number >> 8) & 0xfff,
        minor: (number & 0xff) | ((number >> 12) & 0xf_ff00),
    }
}

/// Returns what mknod(2) must create for the file type in `mode`. If `mode` contains no type, this is a
/// regular file.
pub(super) fn node_to_make(mode: u32, device: u32) -> Option<Make<'static>> {
    let (kind, is_device) = match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::RegularFile => (FileKind::Regular, false),
        rustix::fs::FileType::CharacterDevice => (FileKind::CharDevice, true),
        rustix::fs::FileType::BlockDevice => (FileKind::BlockDevice, true),
        rustix::fs::FileType::Fifo => (FileKind::Fifo, false),
        rustix::fs::FileType::Socket => (FileKind::Socket, false),
        _ if mode & 0o170_000 == 0 => (FileKind::Regular, false),
        _ => return None,
    };
    Some(Make::Node {
        kind,
        device: is_device.then(|| device_of(device)),
    })
}

/// Returns the operation that fallocate(2) requests, if the volume supports it.
pub(super) fn fallocate_mode(mode: i32) -> Option<Fallocate> {
    let flags = FallocateFlags::from_bits(mode.cast_unsigned())?;
    let keep_size = flags.contains(FallocateFlags::KEEP_SIZE);
    match flags - FallocateFlags::KEEP_SIZE {
        none if none.is_empty() => Some(Fallocate::Allocate { keep_size }),
        FallocateFlags::PUNCH_HOLE if keep_size => Some(Fallocate::PunchHole),
        FallocateFlags::ZERO_RANGE => Some(Fallocate::ZeroRange { keep_size }),
        FallocateFlags::COLLAPSE_RANGE if !keep_size => Some(Fallocate::Collapse),
        FallocateFlags::INSERT_RANGE if !keep_size => Some(Fallocate::Insert),
        _ => None,
    }
}

/// Returns the mode that the flags of setxattr(2) request.
pub(super) fn xattr_mode(flags: i32) -> Option<XattrMode> {
    match flags {
        0 => Some(XattrMode::Any),
        1 => Some(XattrMode::Create),
        2 => Some(XattrMode::Replace),
        _ => None,
    }
}

pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::To(timestamp(time)),
    }
}

/// Converts a time to seconds, which are rounded down, and nanoseconds.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    let whole = |since: Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => Timestamp {
            seconds: whole(after),
            nanoseconds: after.subsec_nanos(),
        },
        Err(error) => {
            let before = error.duration();
            match before.subsec_nanos() {
                0 => Timestamp {
                    seconds: -whole(before),
                    nanoseconds: 0,
                },
                part => Timestamp {
                    seconds: -whole(before) - 1,
                    nanoseconds: 1_000_000_000 - part,
                },
            }
        }
    }
}

fn time(timestamp: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(timestamp.seconds.unsigned_abs());
    let seconds = if timestamp.seconds >= 0 {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    };
    seconds
        .and_then(|time| time.checked_add(Duration::from_nanos(timestamp.nanoseconds.into())))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_number_splits_the_minor() {
        assert_eq!(device_number(8, 1), 0x0801);
        assert_eq!(device_number(259, 0x12345), 0x1231_0345);
    }

    #[test]
    fn device_number_of_each_part_reads_back() {
        for (major, minor) in [(0, 0), (8, 1), (259, 0x12345), (0xfff, 0xf_ffff)] {
            let device = device_of(device_number(major, minor));
            assert_eq!((device.major, device.minor), (major, minor));
        }
    }

    #[test]
    fn time_of_the_protocol_reads_back() {
        for (seconds, nanoseconds) in [(0, 0), (1, 5), (-1, 0), (-1, 500_000_000), (-7, 1)] {
            let stamp = Timestamp {
                seconds,
                nanoseconds,
            };
            assert_eq!(timestamp(time(stamp)), stamp);
        }
    }

    #[test]
    fn invalid_fallocate_modes_are_refused() {
        let keep_size = true;
        assert_eq!(fallocate_mode(1), Some(Fallocate::Allocate { keep_size }));
        assert_eq!(fallocate_mode(3), Some(Fallocate::PunchHole));
        assert_eq!(
            fallocate_mode(0x11),
            Some(Fallocate::ZeroRange { keep_size })
        );
        assert_eq!(fallocate_mode(8), Some(Fallocate::Collapse));
        for mode in [2, 9, 0x21, 0x12, 0x40, -1] {
            assert_eq!(fallocate_mode(mode), None, "{mode:#x}");
        }
    }

    #[test]
    fn time_before_1970_keeps_its_nanoseconds() {
        let half_past = time(Timestamp {
            seconds: -1,
            nanoseconds: 500_000_000,
        });
        let before = SystemTime::UNIX_EPOCH.duration_since(half_past).unwrap();
        assert_eq!(before, Duration::from_millis(500));
    }

    #[test]
    fn times_out_of_range_do_not_panic() {
        for seconds in [i64::MIN, i64::MAX] {
            for nanoseconds in [0, 999_999_999, u32::MAX] {
                time(Timestamp {
                    seconds,
                    nanoseconds,
                });
            }
        }
    }
}
