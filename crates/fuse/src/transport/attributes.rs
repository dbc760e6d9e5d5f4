//! Converts attributes between the FUSE protocol and the volume.

use crate::operations::Entry;
use crate::protocol::abi::{Attr, AttrOut, EntryOut, SetAttrIn, StatxOut, StatxTime, set};
use crate::protocol::type_bits;
use larder::{
    DeviceNumber, Fallocate, FileKind, Make, Metadata, SetAttributes, SetTime, Timestamp, XattrMode,
};
use rustix::fs::{FallocateFlags, StatxFlags};
use std::time::Duration;

/// The owner and group that are shown instead of those of each file, if they are set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShownOwner {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

/// The preferred size of a read in bytes, as stat(2) returns it.
const BLOCK_SIZE_BYTES: u32 = 4096;

/// Returns the reply with a file. The kernel may cache its name for `name_ttl` and its attributes for
/// `attr_ttl`.
pub(super) fn entry_out(
    entry: &Entry,
    shown: ShownOwner,
    name_ttl: Duration,
    attr_ttl: Duration,
) -> EntryOut {
    EntryOut {
        node: entry.node.0,
        generation: u64::from(entry.metadata.generation),
        name_ttl: name_ttl.as_secs(),
        name_ttl_ns: name_ttl.subsec_nanos(),
        attr_ttl: attr_ttl.as_secs(),
        attr_ttl_ns: attr_ttl.subsec_nanos(),
        attr: attr(&entry.metadata, shown),
    }
}

/// Returns the reply that a name does not exist, which the kernel may cache for `ttl`.
pub(super) fn no_entry(ttl: Duration) -> EntryOut {
    EntryOut {
        name_ttl: ttl.as_secs(),
        name_ttl_ns: ttl.subsec_nanos(),
        ..EntryOut::default()
    }
}

/// Returns the reply with the attributes of a file.
pub(super) fn attr_out(metadata: &Metadata, shown: ShownOwner, ttl: Duration) -> AttrOut {
    AttrOut {
        ttl: ttl.as_secs(),
        ttl_ns: ttl.subsec_nanos(),
        unused: 0,
        attr: attr(metadata, shown),
    }
}

fn attr(metadata: &Metadata, shown: ShownOwner) -> Attr {
    Attr {
        ino: metadata.ino.0.into(),
        size_bytes: metadata.size_bytes,
        blocks_512: metadata.blocks_512,
        atime: metadata.accessed.seconds,
        mtime: metadata.modified.seconds,
        ctime: metadata.changed.seconds,
        atime_ns: metadata.accessed.nanoseconds,
        mtime_ns: metadata.modified.nanoseconds,
        ctime_ns: metadata.changed.nanoseconds,
        mode: type_bits(metadata.kind) | u32::from(metadata.permissions),
        links: metadata.links,
        uid: shown.uid.unwrap_or(metadata.uid),
        gid: shown.gid.unwrap_or(metadata.gid),
        device: device_number(metadata.rdev_major, metadata.rdev_minor),
        block_size_bytes: BLOCK_SIZE_BYTES,
        unused: 0,
    }
}

/// Returns the reply to `STATX`, which also has the creation time.
pub(super) fn statx_out(metadata: &Metadata, shown: ShownOwner, ttl: Duration) -> StatxOut {
    let mut mask = StatxFlags::BASIC_STATS;
    mask.set(StatxFlags::BTIME, metadata.created.is_some());
    let attr = attr(metadata, shown);
    StatxOut {
        ttl: ttl.as_secs(),
        ttl_ns: ttl.subsec_nanos(),
        mask: mask.bits(),
        block_size_bytes: attr.block_size_bytes,
        links: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        mode: u16::try_from(attr.mode).unwrap_or(0),
        ino: attr.ino,
        size_bytes: attr.size_bytes,
        blocks_512: attr.blocks_512,
        atime: statx_time(metadata.accessed),
        btime: metadata.created.map_or_else(StatxTime::default, statx_time),
        ctime: statx_time(metadata.changed),
        mtime: statx_time(metadata.modified),
        device_major: metadata.rdev_major,
        device_minor: metadata.rdev_minor,
        ..StatxOut::default()
    }
}

fn statx_time(time: Timestamp) -> StatxTime {
    StatxTime {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
        unused: 0,
    }
}

/// Returns the attributes that `SETATTR` sets.
pub(super) fn attributes_to_set(request: &SetAttrIn) -> SetAttributes {
    let has = |bit: u32| request.valid & bit != 0;
    let time = |set: u32, now: u32, seconds, nanoseconds| {
        if has(now) {
            Some(SetTime::Now)
        } else {
            has(set).then_some(SetTime::To(Timestamp {
                seconds,
                nanoseconds,
            }))
        }
    };
    SetAttributes {
        permissions: has(set::MODE).then(|| permissions(request.mode)),
        uid: has(set::UID).then_some(request.uid),
        gid: has(set::GID).then_some(request.gid),
        size_bytes: has(set::SIZE).then_some(request.size_bytes),
        atime: time(set::ATIME, set::ATIME_NOW, request.atime, request.atime_ns),
        mtime: time(set::MTIME, set::MTIME_NOW, request.mtime, request.mtime_ns),
        ctime: has(set::CTIME).then_some(Timestamp {
            seconds: request.ctime,
            nanoseconds: request.ctime_ns,
        }),
        ..SetAttributes::default()
    }
}

/// Returns the low 12 bits of a mode: the permissions.
pub(super) fn permissions(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).unwrap_or(0)
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
pub(super) fn xattr_mode(flags: u32) -> Option<XattrMode> {
    match flags {
        0 => Some(XattrMode::Any),
        1 => Some(XattrMode::Create),
        2 => Some(XattrMode::Replace),
        _ => None,
    }
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
    fn only_valid_fields_are_set() {
        let request = SetAttrIn {
            valid: set::MODE | set::ATIME | set::MTIME | set::MTIME_NOW,
            mode: 0o100_640,
            uid: 5,
            size_bytes: 7,
            atime: -1,
            atime_ns: 500_000_000,
            ..SetAttrIn::default()
        };
        let half_past = Timestamp {
            seconds: -1,
            nanoseconds: 500_000_000,
        };
        let expected = SetAttributes {
            permissions: Some(0o640),
            atime: Some(SetTime::To(half_past)),
            mtime: Some(SetTime::Now),
            ..SetAttributes::default()
        };
        assert_eq!(attributes_to_set(&request), expected);
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
}
