//! Files whose attributes are set, and what we, e2fsck and the kernel find of them.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use super::writable::Writable;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{Error, FileKind, FileTypeByte, Filesystem, Ino, Inode, NewInode, XattrMode};
use larder_testkit::{Access, LoopMount, Requirement, skip, tell_skipped};
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};
use std::collections::BTreeMap;
use std::path::Path;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 5,
};

pub fn root(fs: &Filesystem) -> Inode {
    fs.inode(Ino::ROOT).expect("root")
}

/// Makes a file in the root directory.
pub fn make(fs: &Filesystem, name: &str, kind: FileKind, permissions: u16) -> Ino {
    let mut handle = fs.start(40).expect("handle");
    let mut parent = root(fs);
    let new = NewInode {
        kind,
        permissions,
        uid: 0,
        gid: 0,
        device: None,
        now: NOW,
    };
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

pub fn set(fs: &Filesystem, ino: Ino, name: &[u8], value: &[u8]) -> Result<(), Error> {
    let mut handle = fs.start(fs.xattr_credits())?;
    let mut inode = fs.inode(ino)?;
    fs.set_xattr(&mut handle, &mut inode, name, value, XattrMode::Any)?;
    handle.stop();
    Ok(())
}

pub fn remove(fs: &Filesystem, ino: Ino, name: &[u8]) -> Result<(), Error> {
    let mut handle = fs.start(fs.xattr_credits())?;
    let mut inode = fs.inode(ino)?;
    fs.remove_xattr(&mut handle, &mut inode, name)?;
    handle.stop();
    Ok(())
}

pub fn all(fs: &Filesystem, ino: Ino) -> Model {
    let inode = fs.inode(ino).expect("inode");
    let names = fs.xattrs(&inode).expect("names");
    let value = |name: &Vec<u8>| fs.xattr(&inode, name).expect("value").expect("is there");
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
    let mut handle = fs.start(fs.xattr_credits()).expect("handle");
    let mut inode = fs.inode(ino).expect("inode");
    fs.set_xattr(&mut handle, &mut inode, name, value, XattrMode::Any)
        .expect("set");
    drop(handle);
}

/// Gives up all attributes of a file, as its deletion does.
pub fn remove_all(fs: &Filesystem, ino: Ino) {
    let mut inode = fs.inode(ino).expect("inode");
    loop {
        let mut handle = fs.start(fs.xattr_credits()).expect("handle");
        let done = fs.drop_xattrs(&mut handle, &mut inode).expect("dropped");
        handle.stop();
        if done {
            break;
        }
    }
}
