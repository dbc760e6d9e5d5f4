//! Directories created by the kernel, and their listings by the kernel and by Larder.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use crate::image::{self, Image};
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::ondisk::dx::DxInfo;
use larder_ext4::{Error, FileBlock, FileKind, Filesystem, Ino, Inode, MappingKind};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, FileTypeExt};
use std::path::Path;
use std::sync::Arc;

pub type Names = BTreeMap<Vec<u8>, (u64, Option<FileKind>)>;

/// Returns the file type in the representation of the kernel's directory entries.
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

/// Returns the kernel's listing.
pub fn kernel_names(dir: &Path) -> Names {
    fs::read_dir(dir)
        .expect("the kernel lists the directory")
        .map(|entry| {
            let entry = entry.expect("entry");
            let kind = kind_of(entry.file_type().expect("file type"));
            (entry.file_name().into_vec(), (entry.ino(), kind))
        })
        .collect()
}

/// Returns Larder's listing, in calls of `step` entries each, without "." and "..", and its error.
pub fn list(fs: &Filesystem, dir: &Inode, step: usize) -> (Names, Option<Error>) {
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

pub fn target(fs: &Filesystem, dir: &Inode, name: &[u8]) -> Result<Option<Ino>, Error> {
    Ok(fs.lookup(dir, name)?.map(|(ino, _)| ino))
}

/// Opens the file system of an image in memory.
pub fn open_bytes(bytes: Vec<u8>) -> Filesystem {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    image::open(&device)
}

pub fn resolve(fs: &Filesystem, path: &str) -> Inode {
    let mut at = fs.inode(Ino::ROOT).expect("root");
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let ino = target(fs, &at, name.as_bytes())
            .expect("lookup")
            .expect(name);
        at = fs.inode(ino).expect("inode");
    }
    at
}

/// Returns name `number` of a directory. Names contain bytes of all values, and some are long.
pub fn name(number: usize, len_bytes: usize) -> Vec<u8> {
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

/// Creates a directory in `root`, through the kernel, for each pair in `counts`: the number of its names,
/// and their length in bytes.
pub fn populate(root: &Path, counts: &[(usize, usize)]) {
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
        // Leave free records.
        for number in (10..count).step_by(9) {
            let _ =
                fs::remove_file(dir.join(std::ffi::OsStr::from_bytes(&name(number, len_bytes))));
        }
    }
}

pub fn dir_block(fs: &Filesystem, dir: &Inode, index: u32) -> u64 {
    match fs.map(dir, FileBlock(index), 1).expect("mapping").kind {
        MappingKind::Written(block) => block.0,
        other => panic!("block {index} is {other:?}"),
    }
}

pub fn levels(fs: &Filesystem, dir: &Inode) -> u8 {
    let block = fs
        .buffers()
        .read::<Error>(dir_block(fs, dir, 0), |_| Ok(()))
        .unwrap();
    DxInfo::parse(&block)
        .expect("root of a hash tree")
        .indirect_levels
}

pub fn block_size(fs: &Filesystem) -> usize {
    usize::try_from(fs.superblock().block_size_bytes()).unwrap()
}

/// Returns an image with a directory of `count` names, the kernel's listing of the directory, and its
/// path. `arguments` are arguments of mke2fs.
pub fn one_directory(arguments: &str, count: usize) -> Option<(Image, Names, String)> {
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
