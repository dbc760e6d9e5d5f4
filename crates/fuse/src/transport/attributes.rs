//! What stat(2) tells, in the protocol's form.

use crate::node::NodeId;
use crate::operations::Entry;
use fuser::{FileAttr, FileType, INodeNo};
use larder::{FileKind, Metadata, Timestamp};
use std::time::{Duration, SystemTime};

/// Preferred size of a read in bytes, for programs that ask.
const BLOCK_SIZE_BYTES: u32 = 4096;

/// The attributes in an answer that names a node: there, the protocol's
/// transport takes the node's number for the inode's.
pub(super) fn of_entry(entry: &Entry) -> FileAttr {
    of_metadata(entry.node.0, &entry.metadata)
}

/// The attributes under the inode number `ino`.
pub(super) fn of_metadata(ino: u64, metadata: &Metadata) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: metadata.size_bytes,
        blocks: metadata.blocks_512,
        atime: time(metadata.accessed),
        mtime: time(metadata.modified),
        ctime: time(metadata.changed),
        // Linux's protocol has no place for it here.
        crtime: SystemTime::UNIX_EPOCH,
        kind: file_type(metadata.kind),
        perm: metadata.permissions,
        nlink: metadata.links,
        uid: metadata.uid,
        gid: metadata.gid,
        rdev: device_number(metadata.rdev_major, metadata.rdev_minor),
        blksize: BLOCK_SIZE_BYTES,
        flags: 0,
    }
}

/// Attributes of a node of which nothing is known but its type: a node's number
/// of 0 says that there is no such file.
pub(super) fn unknown(node: NodeId, kind: FileType) -> FileAttr {
    FileAttr {
        ino: INodeNo(node.0),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
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

/// The kernel's 32-bit device number: 12 bits of major between the low 8 and the
/// high 12 bits of minor.
fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)
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
