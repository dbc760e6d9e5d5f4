//! Files with attributes, as read by Larder, e2fsck and the kernel.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use super::image::new_inode;
use super::writable::Writable;
use larder_cache::mbcache::Variant;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::ondisk::xattr::BlockHeader;
use larder_ext4::{
    Error, FileKind, FileTypeByte, Filesystem, FsBlock, Handle, Ino, Inode, XattrMode, XattrOffer,
};
use larder_testkit::{Access, LoopMount, Requirement, report_skipped, skip};
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};
use std::collections::BTreeMap;
use std::path::Path;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The variants that find attributes to share.
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

/// With and without a journal, checksums, and value inodes.
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

/// Returns pairs of a layout and a variant that shares. Each layout and each variant occurs at
/// least once.
pub fn with_variants<'a>(layouts: &'a [&'a str]) -> impl Iterator<Item = (&'a str, Variant)> {
    let count = layouts.len().max(SHARING.len());
    let variants = SHARING.into_iter().cycle();
    layouts.iter().copied().cycle().zip(variants).take(count)
}

/// Creates a file in the root directory.
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

/// Returns a handle for changing the attributes of `ino`, and the inode.
pub fn start(fs: &Filesystem, ino: Ino) -> Result<(Handle<'_>, Inode), Error> {
    let inode = fs.inode(ino)?;
    let handle = fs.start(fs.xattr_credits(&inode))?;
    Ok((handle, inode))
}

pub fn set(fs: &Filesystem, ino: Ino, name: &[u8], value: &[u8]) -> Result<(), Error> {
    let credits = fs.xattr_credits(&fs.inode(ino)?);
    let (handle, ()) = fs.change(credits, |handle| {
        fs.set_xattr(handle, &mut fs.inode(ino)?, name, value, XattrMode::Any)
    })?;
    handle.stop();
    Ok(())
}

pub fn remove(fs: &Filesystem, ino: Ino, name: &[u8]) -> Result<(), Error> {
    let credits = fs.xattr_credits(&fs.inode(ino)?);
    let (handle, ()) = fs.change(credits, |handle| {
        fs.remove_xattr(handle, &mut fs.inode(ino)?, name)
    })?;
    handle.stop();
    Ok(())
}

/// Reads all attributes of `ino` as if its lock were held, which offers them for sharing.
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

/// Returns the attributes according to the kernel, without those that it generates for every file.
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

/// Returns a file system of each layout, combined as in [`with_variants`], or none if [`needs`]
/// reports a missing requirement.
pub fn each(layouts: &[&str]) -> impl Iterator<Item = Writable> {
    let layouts = if needs() { &[] } else { layouts };
    with_variants(layouts).map(|(arguments, variant)| {
        Writable::make_sharing(arguments, "20M", variant).expect("mke2fs")
    })
}

/// Closes the file system, and checks it with e2fsck and the kernel.
pub fn check(writable: &Writable, models: &BTreeMap<String, (Ino, Model)>) {
    writable.fs.close().expect("closed");
    writable.assert_clean();
    if writable.fs.superblock().block_size_bytes() > 4096 {
        report_skipped("the kernel mounts no blocks larger than its pages");
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

/// Returns an image with files that the kernel wrote, opened for writing.
pub fn after_kernel(arguments: &str, work: impl FnOnce(&Path)) -> Writable {
    let image = super::image::Image::make(arguments, "20M").expect("mke2fs");
    let mount = LoopMount::new(image.path(), Access::ReadWrite, &[]).expect("mount");
    work(&mount.path());
    // A child process that another test starts at this moment keeps the mount busy until its exec.
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

/// Sets an attribute in a handle that is then undone.
pub fn set_undone(fs: &Filesystem, ino: Ino, name: &[u8], value: &[u8]) {
    let (mut handle, mut inode) = start(fs, ino).expect("handle");
    fs.set_xattr(&mut handle, &mut inode, name, value, XattrMode::Any)
        .expect("set");
    drop(handle);
}

/// Removes all attributes of a file as its deletion does: in handles whose credits do not depend on
/// the number of attributes.
pub fn remove_all(fs: &Filesystem, ino: Ino) {
    loop {
        let dropped = fs.change(40, |handle| fs.drop_xattrs(handle, &mut fs.inode(ino)?));
        let (handle, done) = dropped.expect("dropped");
        handle.stop();
        if done {
            break;
        }
    }
}

/// Removes an attribute in a handle that is then undone.
pub fn remove_undone(fs: &Filesystem, ino: Ino, name: &[u8]) {
    let (mut handle, mut inode) = start(fs, ino).expect("handle");
    fs.remove_xattr(&mut handle, &mut inode, name)
        .expect("removed");
    drop(handle);
}

/// Returns the attribute block of `ino`.
pub fn block_of(fs: &Filesystem, ino: Ino) -> Option<FsBlock> {
    fs.inode(ino).expect("inode").file_acl()
}

pub fn header(fs: &Filesystem, block: FsBlock) -> BlockHeader {
    let bytes = fs.metadata_block(block, Ino::ROOT, |_| Ok(()));
    BlockHeader::of(&bytes.expect("block")).expect("a header")
}

/// Creates `count` files, named by their numbers.
pub fn make_files(fs: &Filesystem, count: usize) -> Vec<Ino> {
    (0..count)
        .map(|number| make(fs, &format!("{number}"), FileKind::Regular, 0o644))
        .collect()
}

pub fn commit(fs: &Filesystem) {
    fs.commit(fs.running_tid().expect("tid")).expect("commit");
}

/// Returns the attributes of the files, by their names.
pub fn models(fs: &Filesystem, files: &[Ino]) -> BTreeMap<String, (Ino, Model)> {
    let with_name = |(number, &ino): (usize, &Ino)| (number.to_string(), (ino, all(fs, ino)));
    files.iter().enumerate().map(with_name).collect()
}

/// Returns a value that is too large for the inode, different for each number.
pub fn value(number: usize) -> Vec<u8> {
    let text = format!("value {number} ");
    text.bytes().cycle().take(300).collect()
}
