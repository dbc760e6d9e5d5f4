//! Comparison of lookups and listings with the kernel's, on directories of every kind.

mod directory;
mod image;

use directory::{
    block_size, dir_block, kernel_names, levels, list, one_directory, open_bytes, populate,
    resolve, target,
};
use image::Image;
use larder_ext4::ondisk::dir::Dirents;
use larder_ext4::ondisk::dx::{DxKind, DxNode};
use larder_ext4::ondisk::hash::HashVersion;
use larder_ext4::{Error, FileKind, Filesystem, Ino, Inode};
use larder_testkit::e2fsprogs::{debugfs_write, e2fsck};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Compares the directory `path` and those below it with the kernel's `mounted`.
fn compare(fs: &Filesystem, mounted: &Path, path: &str, parent: Ino) {
    let dir = resolve(fs, path);
    let expected = kernel_names(&mounted.join(path));
    assert_eq!(target(fs, &dir, b".").unwrap(), Some(dir.ino()), "{path}/.");
    assert_eq!(target(fs, &dir, b"..").unwrap(), Some(parent), "{path}/..");
    for step in [usize::MAX, 7] {
        let (mut listed, error) = list(fs, &dir, step);
        assert!(error.is_none(), "{path}: {error:?}");
        let has_types = listed.values().all(|(_, kind)| kind.is_some());
        if !has_types {
            for (name, (_, kind)) in &mut listed {
                *kind = expected.get(name).and_then(|entry| entry.1);
            }
        }
        assert_eq!(listed.len(), expected.len(), "entries of {path}");
        assert!(listed == expected, "listing of {path}");
    }
    for (name, (ino, _)) in &expected {
        let found = target(fs, &dir, name).unwrap().map(|ino| u64::from(ino.0));
        assert_eq!(found, Some(*ino), "{path}/{}", name.escape_ascii());
        let absent = [name, &b"~"[..]].concat();
        if !expected.contains_key(&absent) {
            let found = target(fs, &dir, &absent).unwrap();
            assert_eq!(found, None, "{path}/{}", absent.escape_ascii());
        }
    }
    for (name, (_, kind)) in expected {
        if kind == Some(FileKind::Directory) {
            let name = std::str::from_utf8(&name).expect("directories have plain names");
            compare(
                fs,
                mounted,
                format!("{path}/{name}").trim_matches('/'),
                dir.ino(),
            );
        }
    }
}

/// mke2fs arguments, size, debugfs commands to run first, and the numbers and lengths of names.
type Layout = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(usize, usize)],
);

const LAYOUTS: &[Layout] = &[
    (
        "-t ext2 -b 1024 -O ^dir_index",
        "20M",
        "",
        &[(5, 20), (900, 40)],
    ),
    ("-t ext2 -b 1024 -O ^filetype", "20M", "", &[(300, 20)]),
    ("-t ext3 -b 1024", "40M", "", &[(3000, 200)]),
    (
        "-t ext3 -b 1024",
        "20M",
        "ssv def_hash_version legacy",
        &[(2000, 60)],
    ),
    (
        "-t ext3 -b 1024",
        "20M",
        "ssv def_hash_version tea",
        &[(2000, 60)],
    ),
    (
        "-t ext3 -b 1024",
        "20M",
        "ssv def_hash_version legacy\nssv flags 2",
        &[(2000, 60)],
    ),
    (
        "-t ext3 -b 1024",
        "20M",
        "ssv def_hash_version tea\nssv flags 2",
        &[(2000, 60)],
    ),
    ("-t ext3 -b 1024", "20M", "ssv flags 2", &[(2000, 60)]),
    (
        "-t ext4 -b 4096",
        "60M",
        "",
        &[(2, 255), (20, 100), (4000, 90)],
    ),
    (
        "-t ext4 -b 1024 -O large_dir -N 20000",
        "200M",
        "",
        &[(60_000, 240)],
    ),
    (
        "-t ext4 -b 4096 -O inline_data",
        "20M",
        "",
        &[(2, 8), (3, 9), (5, 12), (9, 20), (200, 30)],
    ),
    (
        "-t ext4 -b 4096 -I 1024 -O inline_data",
        "20M",
        "",
        &[(3, 9), (20, 12), (14, 40)],
    ),
    (
        "-t ext4 -b 2048 -O bigalloc -C 16384",
        "40M",
        "",
        &[(3000, 60)],
    ),
];

#[test]
fn directories_of_every_kind_match_the_kernel() {
    for &(arguments, size, command, counts) in LAYOUTS {
        let Some(image) = Image::make(arguments, size) else {
            return;
        };
        let commands: Vec<&str> = command.lines().collect();
        debugfs_write(image.path(), &commands).expect("debugfs");
        let Some(mount) = image.mount("rw") else {
            return;
        };
        println!("{arguments} {command}");
        populate(mount.path(), counts);
        drop(mount);
        let (fs, _) = image.open();
        let Some(mount) = image.mount("ro,noload") else {
            return;
        };
        compare(&fs, mount.path(), "", Ino::ROOT);
        for &(count, len_bytes) in counts {
            let dir = resolve(&fs, &format!("dir-{count}-{len_bytes}"));
            if count > 200 && !arguments.contains("^dir_index") {
                println!("  {count} names: {} levels", levels(&fs, &dir));
            }
        }
    }
}

#[test]
fn blocks_of_64_kib_hold_directories_that_e2fsck_indexed() {
    let source = tempfile::tempdir().expect("temporary directory");
    populate(source.path(), &[(1, 20), (5000, 100)]);
    let arguments = format!("-t ext4 -b 65536 -d {}", source.path().display());
    for index in [false, true] {
        let Some(image) = Image::make(&arguments, "100M") else {
            return;
        };
        if index {
            let optimized = e2fsck("-fyD").accept(1).arg(image.path()).run();
            optimized.expect("e2fsck");
        }
        let (fs, _) = image.open();
        for path in ["dir-1-20", "dir-5000-100"] {
            let dir = resolve(&fs, path);
            let expected = kernel_names(&source.path().join(path));
            let (listed, error) = list(&fs, &dir, usize::MAX);
            assert!(error.is_none(), "{error:?}");
            assert!(listed.keys().eq(expected.keys()), "names of {path}");
            for name in expected.keys() {
                assert!(target(&fs, &dir, name).unwrap().is_some());
            }
        }
        let _ = index.then(|| println!("{} levels", levels(&fs, &resolve(&fs, "dir-5000-100"))));
    }
}

/// Changes the hash of an index entry: the entry that follows entry `before` of the node in block
/// `node_block` of the directory. The new hash is the lowest hash of the names in the first leaf of
/// the entry, with the lowest bit set, as if the preceding leaf also contained names with that hash.
/// Returns the name with that hash.
fn continue_hash(
    bytes: &mut [u8],
    fs: &Filesystem,
    dir: &Inode,
    node_block: u32,
    before: usize,
) -> Vec<u8> {
    let size = block_size(fs);
    let start = usize::try_from(dir_block(fs, dir, node_block)).unwrap() * size;
    let block = bytes[start..start + size].to_vec();
    let (node, entries) = match node_block {
        0 => (DxNode::parse(&block, DxKind::Root, false).unwrap(), 32),
        _ => (DxNode::parse(&block, DxKind::Inner, false).unwrap(), 8),
    };
    let mut leaf = node.block(before + 1);
    if node_block == 0 && levels(fs, dir) > 0 {
        let start = usize::try_from(dir_block(fs, dir, leaf)).unwrap() * size;
        leaf = DxNode::parse(&bytes[start..start + size], DxKind::Inner, false)
            .unwrap()
            .block(0);
    }
    let start_of_leaf = usize::try_from(dir_block(fs, dir, leaf)).unwrap() * size;
    let seed = fs.superblock().hash_seed;
    let version = HashVersion::from_disk(1, fs.superblock().hash_unsigned).unwrap();
    let leaf = bytes[start_of_leaf..start_of_leaf + size].to_vec();
    let (hash, name) = Dirents::new(&leaf)
        .map(|dirent| dirent.expect("entry").name)
        .map(|name| (version.hash(seed, name), name.to_vec()))
        .min()
        .expect("the leaf has entries");
    let at = start + entries + (before + 1) * 8;
    bytes[at..at + 4].copy_from_slice(&(hash | 1).to_le_bytes());
    name
}

#[test]
fn hash_that_continues_in_the_next_leaf_is_followed() {
    let Some((image, names, path)) = one_directory("-t ext3 -b 1024", 3000) else {
        return;
    };
    let mut bytes = image.bytes();
    let (fs, _) = image.open();
    let dir = resolve(&fs, &path);
    assert_eq!(levels(&fs, &dir), 1, "the directory is large enough");
    let root = fs
        .buffers()
        .read::<Error>(dir_block(&fs, &dir, 0), |_| Ok(()))
        .unwrap();
    let first_node = DxNode::parse(&root, DxKind::Root, false).unwrap().block(0);
    // One continuation within a node, and one across nodes.
    let moved = [
        continue_hash(&mut bytes, &fs, &dir, first_node, 5),
        continue_hash(&mut bytes, &fs, &dir, 0, 0),
    ];
    fs::write(image.path(), &bytes).expect("image");
    let fs = open_bytes(bytes);
    let Some(mount) = image.mount("ro") else {
        return;
    };
    for name in &moved {
        let on_disk = mount
            .path()
            .join(&path)
            .join(std::ffi::OsStr::from_bytes(name));
        assert!(
            fs::symlink_metadata(on_disk).is_ok(),
            "the kernel finds it too"
        );
    }
    for (name, (ino, _)) in names {
        let found = target(&fs, &dir, &name).unwrap();
        assert_eq!(
            found.map(|ino| u64::from(ino.0)),
            Some(ino),
            "{}",
            name.escape_ascii()
        );
    }
}

#[test]
fn index_of_an_unknown_kind_is_not_used() {
    let Some((image, names, path)) = one_directory("-t ext3 -b 1024", 400) else {
        return;
    };
    let (fs, _) = image.open();
    let root = usize::try_from(dir_block(&fs, &resolve(&fs, &path), 0)).unwrap() * 1024;
    for (at, value) in [(28, 6), (28, 200), (30, 3), (31, 1)] {
        let mut bytes = image.bytes();
        bytes[root + at] = value;
        let fs = open_bytes(bytes);
        let dir = resolve(&fs, &path);
        for name in names.keys() {
            assert!(
                target(&fs, &dir, name).unwrap().is_some(),
                "byte {at} is {value}"
            );
        }
    }
}
