//! Access control lists and modes that new files inherit, compared with those that the kernel gives
//! to files created in the same way. The umask is a property of the process, so this test has its
//! own file.

mod image;
mod writable;

use image::{Image, new_inode};
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{FileKind, FileTypeByte, Filesystem, Ino};
use larder_testkit::seed::{Random, Seed};
use larder_testkit::{Access, LoopMount, Requirement, skip};
use rustix::fs::{Mode, XattrFlags, lgetxattr, lsetxattr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use writable::Writable;

const UMASK: u16 = 0o027;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// A directory's default list, if any, and the files to create in it: whether each is a directory,
/// and its requested permissions.
struct Case {
    list: Option<Vec<u8>>,
    files: Vec<(bool, u16)>,
}

fn cases(random: &mut Random) -> Vec<Case> {
    const NO_ID: u32 = u32::MAX;
    (0..24)
        .map(|number| {
            let mut bits = || u16::try_from(random.below(8)).expect("small");
            let mut list = vec![(0x01_u16, bits(), NO_ID)];
            let named = number % 3;
            list.extend((0..named).map(|id| (0x02, bits(), 1000 + id)));
            list.push((0x04, bits(), NO_ID));
            list.extend((0..named / 2).map(|id| (0x08, bits(), 70_000 + id)));
            if named > 0 || number % 2 == 0 {
                list.push((0x10, bits(), NO_ID));
            }
            list.push((0x20, bits(), NO_ID));
            let mut bytes = 2_u32.to_le_bytes().to_vec();
            for (tag, permissions, id) in list {
                bytes.extend(tag.to_le_bytes());
                bytes.extend(permissions.to_le_bytes());
                bytes.extend(id.to_le_bytes());
            }
            let mut permissions = || u16::try_from(random.below(0o1000)).expect("small");
            let files = (0..4)
                .map(|number| (number % 2 == 0, permissions()))
                .collect();
            Case {
                list: (number != 0).then_some(bytes),
                files,
            }
        })
        .collect()
}

/// Returns the mode and both lists of a file according to the kernel.
fn outcome(path: &Path) -> (u32, [Option<Vec<u8>>; 2]) {
    let mode = std::fs::symlink_metadata(path).expect("file").mode();
    let lists = [ACCESS, DEFAULT].map(|name| {
        let mut value = vec![0; 1024];
        let len = lgetxattr(path, name, &mut value[..]).ok()?;
        value.truncate(len);
        Some(value)
    });
    (mode, lists)
}

fn make_by_kernel(path: &Path, is_directory: bool, permissions: u16) {
    let permissions = permissions.into();
    if is_directory {
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(permissions).create(path).expect("mkdir");
    } else {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(permissions);
        options.open(path).expect("file");
    }
}

fn make_by_larder(
    fs: &Filesystem,
    parent: &str,
    name: &str,
    (is_directory, permissions): (bool, u16),
) {
    let mut handle = fs.start(60).expect("handle");
    let root = fs.inode(Ino::ROOT).expect("root");
    let found = fs.lookup(&root, parent.as_bytes()).expect("lookup");
    let mut parent = fs.inode(found.expect("directory").0).expect("inode");
    let new = new_inode(
        if is_directory {
            FileKind::Directory
        } else {
            FileKind::Regular
        },
        permissions,
        Timestamp {
            seconds: 1_700_000_000,
            nanoseconds: 0,
        },
    );
    let mut inode = fs.create_inode(&mut handle, &parent, &new).expect("inode");
    fs.inherit_acl(&mut handle, &parent, &mut inode, UMASK)
        .expect("inherited");
    if is_directory {
        let ino = parent.ino();
        fs.init_directory(&mut handle, &mut inode, ino)
            .expect("directory");
        fs.write_inode(&mut handle, &inode).expect("written");
        parent.set_links(parent.links() + 1);
    }
    let file_type = FileTypeByte(if is_directory { 2 } else { 1 });
    let target = (inode.ino(), file_type);
    fs.add_entry(&mut handle, &mut parent, name.as_bytes(), target)
        .expect("entry");
    fs.write_inode(&mut handle, &parent).expect("written");
    handle.stop();
}

#[test]
fn inherited_mode_and_lists_equal_the_kernels() {
    if skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
    ]) {
        return;
    }
    let seed = Seed::from_environment(0xac1);
    println!("seed {seed}");
    rustix::process::umask(Mode::from_raw_mode(UMASK.into()));
    for arguments in [
        "-t ext4 -b 4096",
        "-t ext3 -b 1024 -I 128",
        "-t ext4 -b 1024 -O inline_data",
    ] {
        let cases = cases(&mut Random::new(seed));
        let image = Image::make(arguments, "20M").expect("mke2fs");
        let mount = LoopMount::new(image.path(), Access::ReadWrite, &[]).expect("mount");
        let mut theirs = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            let directory = mount.path().join(format!("dir-{number}"));
            std::fs::create_dir(&directory).expect("mkdir");
            if let Some(list) = &case.list {
                lsetxattr(&directory, DEFAULT, list, XattrFlags::empty()).expect("list");
            }
            for (number, &(is_directory, permissions)) in case.files.iter().enumerate() {
                let path = directory.join(format!("kernel-{number}"));
                make_by_kernel(&path, is_directory, permissions);
                theirs.push(outcome(&path));
            }
        }
        drop(mount);

        let writable = Writable::open(image.bytes(), arguments.to_owned());
        for (number, case) in cases.iter().enumerate() {
            let parent = format!("dir-{number}");
            for (number, &file) in case.files.iter().enumerate() {
                make_by_larder(&writable.fs, &parent, &format!("larder-{number}"), file);
            }
        }
        writable.fs.close().expect("closed");
        writable.assert_clean();
        writable.on_file(|path| {
            let mount = LoopMount::new(path, Access::ReadOnly, &[]).expect("mount");
            let mut theirs = theirs.iter();
            for (number, case) in cases.iter().enumerate() {
                let directory = mount.path().join(format!("dir-{number}"));
                for (index, file) in case.files.iter().enumerate() {
                    let ours = outcome(&directory.join(format!("larder-{index}")));
                    let theirs = theirs.next().expect("one each");
                    assert_eq!(ours, *theirs, "{file:?} in {number}, {arguments}");
                }
            }
        });
    }
}
