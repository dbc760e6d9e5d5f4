//! Symbolic links, device nodes, modes, owners and times.

use super::builder::Builder;
use crate::error::{Context, Result};
use crate::requirement::is_root;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, chmod, chownat, makedev, mknodat,
    utimensat,
};

/// Targets near the length that fits in the inode, and of the maximum length.
pub(super) fn symlinks(builder: &mut Builder) -> Result<()> {
    builder.folder("symlinks")?;
    for len in [1, 58, 59, 60, 61, 100, 255, 1000, 1023, 2047, 4094, 4095] {
        let target: Vec<u8> = (0..len)
            .map(|i| if i % 50 == 49 { b'/' } else { b't' })
            .collect();
        let path = builder.path(format!("symlinks/{len}"));
        builder.symlink(&target, &path)?;
    }
    for (name, target) in [
        ("to-root", &b"/"[..]),
        ("to-itself", b"to-itself"),
        ("to-nothing", b"no/such/file"),
        ("to-file", b"../sizes/4097"),
        ("to-folder", b"../odd-names"),
        ("up", b"../../../.."),
        ("not-utf8", b"\xff\xfe/\x80"),
    ] {
        let path = builder.path(format!("symlinks/{name}"));
        builder.symlink(target, &path)?;
    }
    Ok(())
}

/// Devices with numbers in the old and the new encoding, FIFOs and sockets.
pub(super) fn nodes(builder: &mut Builder) -> Result<()> {
    builder.folder("nodes")?;
    for (name, kind, major, minor) in [
        ("fifo", FileType::Fifo, 0, 0),
        ("socket", FileType::Socket, 0, 0),
        ("null", FileType::CharacterDevice, 1, 3),
        ("char-old-largest", FileType::CharacterDevice, 255, 255),
        ("char-new", FileType::CharacterDevice, 256, 0),
        ("char-minor", FileType::CharacterDevice, 4, 0xf_ffff),
        ("char-largest", FileType::CharacterDevice, 0xfff, 0xf_ffff),
        ("block", FileType::BlockDevice, 8, 1),
        ("block-new", FileType::BlockDevice, 259, 300),
    ] {
        let path = builder.path(format!("nodes/{name}"));
        let made = mknodat(
            CWD,
            &path,
            kind,
            Mode::from_raw_mode(0o640),
            makedev(major, minor),
        );
        builder.attempt(name, made)?;
    }
    Ok(())
}

/// Every set-id and sticky bit, and a file without any permissions.
pub(super) fn modes(builder: &mut Builder) -> Result<()> {
    builder.folder("modes")?;
    for mode in [
        0, 0o111, 0o444, 0o777, 0o1777, 0o2755, 0o4755, 0o6711, 0o7777,
    ] {
        let path = builder.path(format!("modes/file-{mode:04o}"));
        // mke2fs must read what it copies, and root can read everything.
        if mode & 0o400 == 0 && !is_root() {
            continue;
        }
        builder.create(&path)?;
        chmod(&path, Mode::from_raw_mode(mode)).context("chmod", &path)?;
    }
    for mode in [0o700, 0o1777, 0o2775, 0o755] {
        let path = builder.folder(format!("modes/folder-{mode:04o}"))?;
        chmod(&path, Mode::from_raw_mode(mode)).context("chmod", &path)?;
    }
    Ok(())
}

/// Owners whose numbers need the upper half of the field.
pub(super) fn owners(builder: &mut Builder) -> Result<()> {
    builder.folder("owners")?;
    for (uid, gid) in [
        (1, 2),
        (65_535, 65_534),
        (65_536, 0),
        (0, 65_536),
        (100_000, 200_000),
        (0xffff_fffe, 0x8000_0001),
    ] {
        let path = builder.path(format!("owners/{uid}-{gid}"));
        builder.create(&path)?;
        let owners = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        let done = chownat(CWD, &path, owners.0, owners.1, AtFlags::SYMLINK_NOFOLLOW);
        builder.attempt(&format!("owner {uid}:{gid}"), done)?;
    }
    Ok(())
}

/// Times before 1970, around each epoch of the extra bits, and the latest possible time.
pub(super) fn times(builder: &mut Builder) -> Result<()> {
    const ALMOST_A_SECOND: i64 = 999_999_999;
    builder.folder("times")?;
    for (name, seconds, nanoseconds) in [
        ("1901", -0x8000_0000_i64, 0),
        ("1960", -315_619_200, 123_456_789),
        ("1969", -1, ALMOST_A_SECOND),
        ("1970", 0, 1),
        ("2004", 0x4000_0000, ALMOST_A_SECOND),
        ("2038-before", 0x7fff_ffff, ALMOST_A_SECOND),
        ("2038-after", 0x8000_0000, 0),
        ("2106", 0x1_0000_0000, 5),
        ("2174", 0x1_8000_0000, 6),
        ("2242", 0x2_0000_0000, 7),
        ("2310", 0x2_8000_0000, 8),
        ("2378", 0x3_0000_0000, 9),
        ("2446", 0x3_7fff_ffff, ALMOST_A_SECOND),
    ] {
        if seconds > builder.limits.last_second {
            continue;
        }
        let path = builder.path(format!("times/{name}"));
        builder.create(&path)?;
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: seconds,
                tv_nsec: ALMOST_A_SECOND - nanoseconds,
            },
            last_modification: Timespec {
                tv_sec: seconds,
                tv_nsec: nanoseconds,
            },
        };
        let done = utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW);
        builder.attempt(name, done)?;
    }
    Ok(())
}
