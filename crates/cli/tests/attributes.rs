//! Attributes that files share, on a mount with each variant of mbcache: what programs read, how much
//! space they use on the image, and the output of `larder stats`.

mod support;

use larder::MbCacheVariant;
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr, statvfs};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use support::{
    Fixture, Mountpoint, User, assert_clean, command, larder_ok, mount, ready, text, umount,
    wait_until,
};

/// The number of files with the same attribute.
const FILES: usize = 40;
/// A value that is too large for an inode.
const IN_A_BLOCK: &[u8] = &[7; 300];
/// A value that is too large for a block.
const IN_AN_INODE: &[u8] = &[8; 5000];

/// Returns a fixture whose image can store values in inodes, and a mount point.
fn ready_for_large_values() -> Option<(Fixture, Mountpoint)> {
    let (fixture, mountpoint) = ready()?;
    fixture.make_image("ext4", "-O ea_inode -I 256");
    Some((fixture, mountpoint))
}

fn set(file: &Path, name: &str, value: &[u8]) {
    setxattr(file, name, value, XattrFlags::empty()).unwrap();
}

fn value(file: &Path, name: &str) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = [0; 8192];
    let len = getxattr(file, name, &mut buffer)?;
    Ok(buffer[..len].to_vec())
}

/// Returns the numbers of free blocks and inodes.
fn free(mountpoint: &Path) -> (u64, u64) {
    let statvfs = statvfs(mountpoint).unwrap();
    (statvfs.f_bfree, statvfs.f_ffree)
}

fn stats(mountpoint: &Path) -> Value {
    let json = larder_ok(["stats".as_ref(), "--json".as_ref(), mountpoint.as_os_str()]);
    serde_json::from_str(&json).unwrap()
}

#[test]
fn equal_attributes_share_one_block_and_one_inode_unless_off() {
    for variant in MbCacheVariant::ALL {
        let Some((fixture, at)) = ready_for_large_values() else {
            return;
        };
        mount(User::Same, &fixture, &at.0, &format!("mbcache={variant}"));
        let files: Vec<PathBuf> = (0..FILES).map(|n| at.0.join(format!("f{n}"))).collect();
        for file in &files {
            File::create(file).unwrap();
        }
        let shared = variant != MbCacheVariant::Off;
        let copies = |n: usize| if shared { 1 } else { n as u64 };

        let (blocks, inodes) = free(&at.0);
        for file in &files {
            set(file, "user.a", IN_A_BLOCK);
        }
        let taken = blocks - free(&at.0).0;
        assert_eq!(taken, copies(FILES), "{variant}");
        for file in &files[..2] {
            set(file, "user.large", IN_AN_INODE);
        }
        assert_eq!(inodes - free(&at.0).1, copies(2), "{variant}");

        let stats = stats(&at.0);
        let attributes = &stats["attributes"];
        assert_eq!(attributes["variant"], variant.as_str());
        if shared {
            assert!(
                attributes["shares"].as_u64() >= Some(FILES as u64),
                "{attributes}"
            );
            let block_bytes = statvfs(&at.0).unwrap().f_bsize;
            let saved = attributes["saved_bytes"].as_u64();
            assert!(
                saved >= Some((FILES as u64 - 1) * block_bytes),
                "{attributes}"
            );
        }
        // A change of one file does not affect the others.
        set(&files[0], "user.a", b"own");
        removexattr(&files[1], "user.a").unwrap();
        umount(User::Same, &at.0);
        assert_clean(&fixture.image());

        mount(User::Same, &fixture, &at.0, "ro");
        assert_eq!(value(&files[0], "user.a").unwrap(), b"own");
        let removed = value(&files[1], "user.a");
        assert_eq!(removed, Err(rustix::io::Errno::NODATA));
        let mut names = [0; 64];
        let len = listxattr(&files[1], &mut names).unwrap();
        assert_eq!(&names[..len], b"user.large\0");
        for file in &files[..2] {
            assert_eq!(value(file, "user.large").unwrap(), IN_AN_INODE);
        }
        for file in &files[2..] {
            assert_eq!(value(file, "user.a").unwrap(), IN_A_BLOCK, "{variant}");
        }
        umount(User::Same, &at.0);
    }
}

#[test]
fn stats_include_shared_attributes() {
    let Some((fixture, at)) = ready_for_large_values() else {
        return;
    };
    mount(User::Same, &fixture, &at.0, "rw");
    for name in ["one", "two"] {
        let file = at.0.join(name);
        fs::write(&file, "").unwrap();
        set(&file, "user.a", IN_A_BLOCK);
    }
    let all = stats(&at.0);
    let attributes = &all["attributes"];
    let saved_bytes = statvfs(&at.0).unwrap().f_bsize;
    assert_eq!(attributes["shares"], 1);
    assert_eq!(attributes["saved_bytes"], saved_bytes);
    for cache in ["blocks", "inodes"] {
        for figure in [
            "entries",
            "limit_entries",
            "buckets",
            "entry_bytes",
            "bytes",
            "lookups",
            "hits",
            "inserted",
            "dropped_by_limit",
            "dropped_by_shrinker",
        ] {
            assert!(
                attributes[cache][figure].is_u64(),
                "{cache} {figure}: {attributes}"
            );
        }
    }
    let blocks = &attributes["blocks"];
    assert_eq!(
        (&blocks["entries"], &blocks["hits"]),
        (&1.into(), &1.into())
    );

    let shown = larder_ok(["stats".as_ref(), at.0.as_os_str()]);
    for part in [
        "\nattributes ",
        " 1 share, ",
        "\n  blocks   1 of ",
        "\n  inodes   0 of ",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    fs::remove_file(at.0.join("two")).unwrap();
    // The blocks of the removed file are freed when the kernel has forgotten it.
    wait_until("no bytes are saved", || {
        stats(&at.0)["attributes"]["saved_bytes"] == 0
    });
    assert_eq!(stats(&at.0)["attributes"]["shares"], 1);
    umount(User::Same, &at.0);

    // A read-only mount shares no attributes.
    mount(User::Same, &fixture, &at.0, "ro");
    assert!(stats(&at.0).get("attributes").is_none());
    umount(User::Same, &at.0);
}

#[test]
fn fuse2fs_accepts_mbcache_option() {
    let Some((fixture, at)) = ready_for_large_values() else {
        return;
    };
    let mounted = command("fuse2fs", User::Same)
        .args([fixture.image(), at.0.clone()])
        .args(["-o", "rw,mbcache=off"])
        .output()
        .unwrap();
    assert!(mounted.status.success(), "{}", text(&mounted.stderr));
    assert_eq!(stats(&at.0)["attributes"]["variant"], "off");
    let shown = larder_ok(["stats".as_ref(), at.0.as_os_str()]);
    assert!(
        shown.contains("\nattributes off: none are shared\n"),
        "{shown}"
    );
    umount(User::Same, &at.0);
    assert_clean(&fixture.image());
}
