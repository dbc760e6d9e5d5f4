//! Lookups and listings against the kernel's, on directories of every kind, and
//! what is left of a directory when a block of it is damaged.

mod image;

use image::Image;
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::ondisk::dx::{DxInfo, DxNode};
use larder_ext4::{Error, FileBlock, FileKind, Filesystem, Ino, Inode, MappingKind};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, FileTypeExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

type Names = BTreeMap<Vec<u8>, (u64, Option<FileKind>)>;

/// The file types, as the kernel's entries code them.
fn kind_of(file_type: fs::FileType) -> Option<FileKind> {
    let kinds = [
        (file_type.is_file(), FileKind::Regular),
        (file_type.is_dir(), FileKind::Directory),
        (file_type.is_symlink(), FileKind::Symlink),
        (file_type.is_fifo(), FileKind::Fifo),
        (file_type.is_socket(), FileKind::Socket),
        (file_type.is_char_device(), FileKind::CharDevice),
        (file_type.is_block_device(), FileKind::BlockDevice),
    ];
    kinds.into_iter().find_map(|(is, kind)| is.then_some(kind))
}

/// What the kernel lists.
fn kernel_names(dir: &Path) -> Names {
    fs::read_dir(dir)
        .expect("the kernel lists the directory")
        .map(|entry| {
            let entry = entry.expect("entry");
            let kind = kind_of(entry.file_type().expect("file type"));
            (entry.file_name().into_vec(), (entry.ino(), kind))
        })
        .collect()
}

/// Our listing in calls of `step` entries each, less "." and "..", and its error.
fn list(fs: &Filesystem, dir: &Inode, step: usize) -> (Names, Option<Error>) {
    let mut names = Names::new();
    let mut dots = 0;
    let mut cookie = 0;
    loop {
        let mut left = step;
        let result = fs.read_dir(dir, cookie, &mut |entry| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            assert!(entry.next_cookie > cookie && entry.next_cookie < 1 << 63);
            cookie = entry.next_cookie;
            if matches!(entry.name, b"." | b"..") {
                dots += 1;
            } else {
                let value = (u64::from(entry.ino.0), entry.file_type.kind());
                let before = names.insert(entry.name.to_vec(), value);
                assert_eq!(before, None, "{} twice", entry.name.escape_ascii());
            }
            ControlFlow::Continue(())
        });
        if left == step || result.is_err() && left > 0 {
            assert_eq!(dots, 2, "number of . and ..");
            return (names, result.err());
        }
    }
}

fn target(fs: &Filesystem, dir: &Inode, name: &[u8]) -> Result<Option<Ino>, Error> {
    Ok(fs.lookup(dir, name)?.map(|(ino, _)| ino))
}

/// The file system of an image in memory.
fn open_bytes(bytes: Vec<u8>) -> Filesystem {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    image::open(&device)
}

fn resolve(fs: &Filesystem, path: &str) -> Inode {
    let mut at = fs.inode(Ino::ROOT).expect("root");
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let ino = target(fs, &at, name.as_bytes())
            .expect("lookup")
            .expect(name);
        at = fs.inode(ino).expect("inode");
    }
    at
}

/// Compares the directory `path` with the kernel's `mounted` and those below.
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

/// The name number `number` of a directory: bytes of all values, some names long.
fn name(number: usize, len_bytes: usize) -> Vec<u8> {
    let mut name = format!("{number:06}-").into_bytes();
    let mut state = number * 2_654_435_761 + 1;
    while name.len() < len_bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let byte = state.to_le_bytes()[5];
        name.push(if matches!(byte, 0 | b'/') { b'+' } else { byte });
    }
    name
}

/// Fills `root` through the kernel with directories of `counts` names.
fn populate(root: &Path, counts: &[(usize, usize)]) {
    for &(count, len_bytes) in counts {
        let dir = root.join(format!("dir-{count}-{len_bytes}"));
        fs::create_dir(&dir).expect("directory");
        let first = dir.join("000-first");
        fs::write(&first, "").expect("file");
        for number in 1..count {
            let name = name(number, len_bytes);
            let path = dir.join(std::ffi::OsStr::from_bytes(&name));
            match number % 50 {
                0 => fs::create_dir(dir.join(format!("sub-{number}"))).expect("directory"),
                1 => std::os::unix::fs::symlink("x", path).expect("link"),
                2 => drop(
                    std::os::unix::net::UnixListener::bind(root.join("socket"))
                        .and_then(|_| fs::rename(root.join("socket"), path)),
                ),
                _ => fs::hard_link(&first, &path)
                    .or_else(|_| fs::write(&path, ""))
                    .expect("file"),
            }
        }
        // Leave free records behind.
        for number in (10..count).step_by(9) {
            let _ =
                fs::remove_file(dir.join(std::ffi::OsStr::from_bytes(&name(number, len_bytes))));
        }
    }
}

fn debugfs_write(image: &Image, command: &str) {
    let output = Command::new("debugfs")
        .args(["-w", "-R", command])
        .arg(image.path())
        .output()
        .expect("debugfs");
    assert!(output.status.success(), "{command}");
}

/// mke2fs arguments, size, debugfs commands to run first, numbers and lengths of names.
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
        for command in command.lines() {
            debugfs_write(&image, command);
        }
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
            Command::new("e2fsck")
                .args(["-fyD"])
                .arg(image.path())
                .output()
                .expect("e2fsck");
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

fn dir_block(fs: &Filesystem, dir: &Inode, index: u32) -> u64 {
    match fs.map(dir, FileBlock(index), 1).expect("mapping").kind {
        MappingKind::Written(block) => block.0,
        other => panic!("block {index} is {other:?}"),
    }
}

fn levels(fs: &Filesystem, dir: &Inode) -> u8 {
    let block = fs
        .buffers()
        .read::<Error>(dir_block(fs, dir, 0), |_| Ok(()))
        .unwrap();
    DxInfo::parse(&block)
        .expect("root of a hash tree")
        .indirect_levels
}

fn block_size(fs: &Filesystem) -> usize {
    usize::try_from(fs.superblock().block_size_bytes()).unwrap()
}

/// An ext3 image with one directory of `count` names, its listing, its inode number.
fn one_directory(arguments: &str, count: usize) -> Option<(Image, Names, String)> {
    let image = Image::make(arguments, "40M")?;
    let mount = image.mount("rw")?;
    populate(mount.path(), &[(count, 100)]);
    drop(mount);
    let mount = image.mount("ro")?;
    let path = format!("dir-{count}-100");
    let names = kernel_names(&mount.path().join(&path));
    drop(mount);
    Some((image, names, path))
}

/// Makes the entry behind entry `before` of the node in block `node_block` of the
/// directory continue the hash of a name in its first leaf: answers the name.
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
        0 => (DxNode::root(&block, false).unwrap(), 32),
        _ => (DxNode::node(&block, false).unwrap(), 8),
    };
    let mut leaf = node.block(before + 1);
    if node_block == 0 && levels(fs, dir) > 0 {
        let start = usize::try_from(dir_block(fs, dir, leaf)).unwrap() * size;
        leaf = DxNode::node(&bytes[start..start + size], false)
            .unwrap()
            .block(0);
    }
    let start_of_leaf = usize::try_from(dir_block(fs, dir, leaf)).unwrap() * size;
    let seed = fs.superblock().hash_seed;
    let version =
        larder_ext4::ondisk::hash::HashVersion::from_disk(1, fs.superblock().hash_unsigned)
            .unwrap();
    let leaf = bytes[start_of_leaf..start_of_leaf + size].to_vec();
    let (hash, name) = larder_ext4::ondisk::dir::Dirents::new(&leaf)
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
    let first_node = DxNode::root(&root, false).unwrap().block(0);
    // One continuation inside a node, one from node to node.
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

#[test]
fn directory_with_a_damaged_block_is_listed_without_it() {
    for arguments in [
        "-t ext4 -b 1024",
        "-t ext4 -b 1024 -O ^dir_index",
        "-t ext3 -b 1024",
    ] {
        let Some((image, names, path)) = one_directory(arguments, 300) else {
            return;
        };
        let (fs, _) = image.open();
        let dir = resolve(&fs, &path);
        let block = dir_block(&fs, &dir, 4);
        let mut bytes = image.bytes();
        // The length of the first record: an error with and without checksums.
        bytes[usize::try_from(block).unwrap() * 1024 + 4] ^= 1;
        let fs = open_bytes(bytes);
        let place = format!("block {block} of inode {}", dir.ino());
        for step in [usize::MAX, 3, 1] {
            let (listed, error) = list(&fs, &dir, step);
            let error = error.expect("damage is reported").to_string();
            assert!(error.contains(&place), "{error} for {place}");
            assert!(listed.len() < names.len() && listed.len() + 20 > names.len());
            assert!(
                listed
                    .iter()
                    .all(|(name, value)| names.get(name) == Some(value))
            );
            for name in names.keys() {
                match target(&fs, &dir, name) {
                    Ok(found) => assert!(found.is_some() && listed.contains_key(name)),
                    Err(error) => {
                        assert!(error.to_string().contains(&place), "{error}");
                        assert!(!listed.contains_key(name));
                    }
                }
            }
        }
    }
}

#[test]
fn name_with_a_slash_is_damage_and_not_shown() {
    let Some((image, _, path)) = one_directory("-t ext3 -b 1024", 5) else {
        return;
    };
    let mut bytes = image.bytes();
    // The journal has copies.
    while let Some(at) = bytes.windows(7).position(|bytes| bytes == b"000003-") {
        bytes[at + 2] = b'/';
    }
    let fs = open_bytes(bytes);
    let (listed, error) = list(&fs, &resolve(&fs, &path), usize::MAX);
    assert!(error.expect("damage").to_string().contains("slash"));
    assert!(listed.keys().all(|name| !name.contains(&b'/')));
    assert!(
        listed.contains_key(&name(4, 100)),
        "names behind it are shown"
    );
}

#[test]
fn names_that_cannot_be_compared_are_errors_of_their_own() {
    for (arguments, flag, what) in [
        ("-t ext4 -O encrypt", 0x800, "encrypted"),
        ("-t ext4 -O casefold", 0x4000_0000_u32, "ignores case"),
    ] {
        let Some(image) = Image::make(arguments, "20M") else {
            return;
        };
        for command in [
            "mkdir secret".to_owned(),
            "mkdir plain".to_owned(),
            "write /dev/null secret/name".to_owned(),
            "write /dev/null plain/name".to_owned(),
            format!("sif secret flags {:#x}", flag | 0x8_0000),
        ] {
            debugfs_write(&image, &command);
        }
        let (fs, _) = image.open();
        let secret = resolve(&fs, "secret");
        let error = fs.lookup(&secret, b"name").unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(target(&fs, &secret, b"..").unwrap(), Some(Ino::ROOT));
        resolve(&fs, "plain/name");
    }
}
