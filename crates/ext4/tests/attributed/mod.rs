//! Files whose attributes are set, and what we, e2fsck and the kernel find of them.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use super::image::new_inode;
use super::writable::Writable;
use larder_cache::mbcache::Variant;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::ondisk::xattr::BlockHeader;
use larder_ext4::{
    Error, FileKind, FileTypeByte, Filesystem, FsBlock, Handle, Ino, Inode, XattrMode, XattrOffer,
};
use larder_testkit::{Access, LoopMount, Requirement, skip, tell_skipped};
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};
use std::collections::BTreeMap;
use std::path::Path;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The variants that find what is to be shared.
const SHARING: [Variant; 5] = [
    Variant::Clock,
    Variant::Old,
    Variant::Lru,
    Variant::ListLru,
    Variant::Referenced,
];

pub const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 5,
};

pub fn root(fs: &Filesystem) -> Inode {
    fs.inode(Ino::ROOT).expect("root")
}

/// With and without journal, checksums, and inodes for values.
pub const LAYOUTS: &[&str] = &[
    "-t ext2 -b 1024 -I 128",
    "-t ext2 -b 4096",
    "-t ext3 -b 1024",
    "-t ext4 -b 1024",
    "-t ext4 -b 4096 -O ^has_journal",
    "-t ext4 -b 4096 -O ea_inode",
    "-t ext4 -b 1024 -O bigalloc,ea_inode -C 4096",
    "-t ext4 -b 1024 -O ea_inode,^extents,^64bit -I 128",
];

/// Each of `layouts`, and each variant that shares, with one of the others at a time.
pub fn with_variants<'a>(layouts: &'a [&'a str]) -> impl Iterator<Item = (&'a str, Variant)> {
    let count = layouts.len().max(SHARING.len());
    let variants = SHARING.into_iter().cycle();
    layouts.iter().copied().cycle().zip(variants).take(count)
}

/// Makes a file in the root directory.
pub fn make(fs: &Filesystem, name: &str, kind: FileKind, permissions: u16) -> Ino {
    let mut handle = fs.start(40).expect("handle");
    let mut parent = root(fs);
    let new = new_inode(kind, permissions, NOW);
    let mut inode = fs.create_inode(&mut handle, &parent, &new).expect("inode");
    let file_type = FileTypeByte(if kind == FileKind::Directory { 2 } else { 1 });
    if kind == FileKind::Directory {
        fs.init_directory(&mut handle, &mut inode, Ino::ROOT)
            .expect("directory");
        parent.set_links(parent.links() + 1);
        fs.write_inode(&mut handle, &inode).expect("written");
    }
    let target = (inode.ino(), file_type);
    fs.add_entry(&mut handle, &mut parent, name.as_bytes(), target)
        .expect("entry");
    fs.write_inode(&mut handle, &parent).expect("written");
    handle.stop();
    inode.ino()
}

/// A handle to change the attributes of `ino` with, and its inode.
pub fn start(fs: &Filesystem, ino: Ino) -> Result<(Handle<'_>, Inode), Error> {
    let inode = fs.inode(ino)?;
    let handle = fs.start(fs.xattr_credits(&inode))?;
    Ok((handle, inode))
}

pub fn set(fs: &Filesystem, ino: Ino, name: &[u8], value: &[u8]) -> Result<(), Error> {
    let (mut handle, mut inode) = start(fs, ino)?;
    fs.set_xattr(&mut handle, &mut inode, name, value, XattrMode::Any)?;
    handle.stop();
    Ok(())
}

pub fn remove(fs: &Filesystem, ino: Ino, name: &[u8]) -> Result<(), Error> {
    let (mut handle, mut inode) = start(fs, ino)?;
    fs.remove_xattr(&mut handle, &mut inode, name)?;
    handle.stop();
    Ok(())
}

/// What `ino` has, read as with its lock: others find it from then on.
pub fn all(fs: &Filesystem, ino: Ino) -> Model {
    let inode = fs.inode(ino).expect("inode");
    let names = fs.xattrs(&inode, XattrOffer::UnderLock).expect("names");
    let value = |name: &Vec<u8>| {
        let value = fs.xattr(&inode, name, XattrOffer::UnderLock);
        value.expect("value").expect("is there")
    };
    names
        .into_iter()
        .map(|name| (name.clone(), value(&name)))
        .collect()
}

/// What the kernel says, without what it makes up for every file.
pub fn by_kernel(path: &Path) -> Model {
    let mut names = vec![0; 65536];
    let len = llistxattr(path, &mut names[..]).expect("llistxattr");
    let names = names[..len].split(|&byte| byte == 0);
    names
        .filter(|name| !name.is_empty())
        .map(|name| {
            let mut value = vec![0; 65536];
            let len = lgetxattr(path, name, &mut value[..]).expect("lgetxattr");
            value.truncate(len);
            (name.to_vec(), value)
        })
        .collect()
}

pub fn needs() -> bool {
    skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
    ])
}

/// A file system of each layout, as [`with_variants`] has them; none where [`needs`] something.
pub fn each(layouts: &[&str]) -> impl Iterator<Item = Writable> {
    let layouts = if needs() { &[] } else { layouts };
    with_variants(layouts).map(|(arguments, variant)| {
        Writable::make_sharing(arguments, "20M", variant).expect("mke2fs")
    })
}

/// Closes the file system, and has e2fsck and the kernel look at it.
pub fn check(writable: &Writable, models: &BTreeMap<String, (Ino, Model)>) {
    writable.fs.close().expect("closed");
    writable.assert_clean();
    if writable.fs.superblock().block_size_bytes() > 4096 {
        tell_skipped("the kernel mounts no blocks larger than its pages");
        return;
    }
    writable.on_file(|path| {
        let mount = LoopMount::new(path, Access::ReadOnly, &[]).expect("mount");
        for (name, (_, model)) in models {
            let found = by_kernel(&mount.path().join(name));
            assert!(
                found == *model,
                "{name} by the kernel, {}",
                writable.made_by()
            );
        }
    });
}

/// An image that the kernel has put files on, opened for writing.
pub fn after_kernel(arguments: &str, work: impl FnOnce(&Path)) -> Writable {
    let image = super::image::Image::make(arguments, "20M").expect("mke2fs");
    let mount = LoopMount::new(image.path(), Access::ReadWrite, &[]).expect("mount");
    work(&mount.path());
    // A child that another test starts at this moment keeps the mount for as long as it has not begun.
    let root = std::fs::File::open(mount.path()).expect("root");
    rustix::fs::syncfs(root).expect("syncfs");
    drop(mount);
    Writable::open(image.bytes(), format!("mke2fs {arguments}"))
}

pub fn lookup(fs: &Filesystem, name: &str) -> Inode {
    let found = fs.lookup(&root(fs), name.as_bytes()).expect("lookup");
    fs.inode(found.expect(name).0).expect("inode")
}

pub fn set_by_kernel(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).expect("lsetxattr");
}

/// Sets an attribute by a handle that is then undone.
pub fn set_undone(fs: &Filesystem, ino: Ino, name: &[u8], value: &[u8]) {
    let (mut handle, mut inode) = start(fs, ino).expect("handle");
    fs.set_xattr(&mut handle, &mut inode, name, value, XattrMode::Any)
        .expect("set");
    drop(handle);
}

/// Gives up all attributes of a file, as its deletion does: in handles that need not know how many
/// there are.
pub fn remove_all(fs: &Filesystem, ino: Ino) {
    loop {
        let mut handle = fs.start(40).expect("handle");
        let mut inode = fs.inode(ino).expect("inode");
        let done = fs.drop_xattrs(&mut handle, &mut inode).expect("dropped");
        handle.stop();
        if done {
            break;
        }
    }
}

/// Removes an attribute by a handle that is then undone.
pub fn remove_undone(fs: &Filesystem, ino: Ino, name: &[u8]) {
    let (mut handle, mut inode) = start(fs, ino).expect("handle");
    fs.remove_xattr(&mut handle, &mut inode, name)
        .expect("removed");
    drop(handle);
}

/// The block of attributes that `ino` has.
pub fn block_of(fs: &Filesystem, ino: Ino) -> Option<FsBlock> {
    fs.inode(ino).expect("inode").file_acl()
}

pub fn header(fs: &Filesystem, block: FsBlock) -> BlockHeader {
    let bytes = fs.metadata_block(block, Ino::ROOT, |_| Ok(()));
    BlockHeader::of(&bytes.expect("block")).expect("a header")
}

/// Makes `count` files, named by their numbers.
pub fn make_files(fs: &Filesystem, count: usize) -> Vec<Ino> {
    (0..count)
        .map(|number| make(fs, &format!("{number}"), FileKind::Regular, 0o644))
        .collect()
}

pub fn commit(fs: &Filesystem) {
    fs.commit(fs.running_tid().expect("tid")).expect("commit");
}

/// What the files have, by their names.
pub fn models(fs: &Filesystem, files: &[Ino]) -> BTreeMap<String, (Ino, Model)> {
    let with_name = |(number, &ino): (usize, &Ino)| (number.to_string(), (ino, all(fs, ino)));
    files.iter().enumerate().map(with_name).collect()
}

/// Values that fit into no inode, each another.
pub fn value(number: usize) -> Vec<u8> {
    let text = format!("value {number} ");
    text.bytes().cycle().take(300).collect()
}
