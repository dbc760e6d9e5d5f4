//! Attributes that are set, replaced and removed: against a model after every step, then as
//! e2fsck and the kernel see what is on the image.

mod image;
mod writable;

use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{Error, FileKind, FileTypeByte, Filesystem, Ino, Inode, NewInode, XattrMode};
use larder_testkit::seed::{Random, Seed};
use larder_testkit::{Access, LoopMount, Requirement, skip};
use rustix::fs::{lgetxattr, llistxattr};
use std::collections::BTreeMap;
use std::path::Path;
use writable::Writable;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const LAYOUTS: &[&str] = &[
    "-t ext2 -b 1024 -I 128",
    "-t ext3 -b 4096 -I 128",
    "-t ext4 -b 1024",
    "-t ext4 -b 4096 -O ^metadata_csum,^64bit",
    "-t ext4 -b 1024 -O ea_inode",
    "-t ext4 -b 4096 -O ea_inode,inline_data",
    "-t ext4 -b 4096 -I 1024 -O inline_data",
    "-t ext4 -b 1024 -O bigalloc,ea_inode -C 4096",
    "-t ext4 -b 4096 -I 128 -O ea_inode",
    "-t ext4 -b 1024 -O ea_inode,^extents,^64bit",
];

const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 5,
};

fn root(fs: &Filesystem) -> Inode {
    fs.inode(Ino::ROOT).expect("root")
}

/// Makes a file in the root directory.
fn make(fs: &Filesystem, name: &str, kind: FileKind, permissions: u16) -> Ino {
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

fn set(fs: &Filesystem, ino: Ino, name: &[u8], value: &[u8]) -> Result<(), Error> {
    let mut handle = fs.start(fs.xattr_credits())?;
    let mut inode = fs.inode(ino)?;
    fs.set_xattr(&mut handle, &mut inode, name, value, XattrMode::Any)?;
    handle.stop();
    Ok(())
}

fn remove(fs: &Filesystem, ino: Ino, name: &[u8]) -> Result<(), Error> {
    let mut handle = fs.start(fs.xattr_credits())?;
    let mut inode = fs.inode(ino)?;
    fs.remove_xattr(&mut handle, &mut inode, name)?;
    handle.stop();
    Ok(())
}

fn all(fs: &Filesystem, ino: Ino) -> Model {
    let inode = fs.inode(ino).expect("inode");
    let names = fs.xattrs(&inode).expect("names");
    let value = |name: &Vec<u8>| fs.xattr(&inode, name).expect("value").expect("is there");
    names
        .into_iter()
        .map(|name| (name.clone(), value(&name)))
        .collect()
}

/// What the kernel says, without what it makes up for every file.
fn by_kernel(path: &Path) -> Model {
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

fn needs() -> bool {
    skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
    ])
}

/// Closes the file system, and has e2fsck and the kernel look at it.
fn check(writable: &Writable, models: &BTreeMap<String, (Ino, Model)>) {
    writable.fs.close().expect("closed");
    writable.assert_clean();
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

fn random_name(random: &mut Random) -> Vec<u8> {
    let prefix: &[u8] = match random.below(4) {
        0 => b"trusted.",
        1 => b"security.",
        _ => b"user.",
    };
    let number = random.below(8);
    let mut name = [prefix, format!("name-{number}").as_bytes()].concat();
    match number {
        7 => name.resize(255, b'x'),
        6 => name.extend([0xC3, 0xA4]),
        _ => {}
    }
    name
}

fn random_value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(12) {
        0 => 0,
        1..=5 => random.below(40),
        6..=8 => random.below(400),
        9 => random.below(1100),
        10 => random.below(4200),
        _ => random.below(65_537),
    };
    let start = random.next_u64().to_le_bytes()[0];
    (0..len)
        .map(|at| start.wrapping_add(at.to_le_bytes()[0]))
        .collect()
}

#[test]
fn attributes_after_any_changes_are_those_of_a_map() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(0x5e7);
    println!("seed {seed}");
    for (number, arguments) in (0..).zip(LAYOUTS) {
        let mut random = Random::new(seed.part(number));
        let writable = Writable::make(arguments, "40M").expect("mke2fs");
        let fs = &writable.fs;
        let mut models = BTreeMap::new();
        for (name, kind) in [
            ("file", FileKind::Regular),
            ("other", FileKind::Regular),
            ("directory", FileKind::Directory),
        ] {
            models.insert(name.to_owned(), (make(fs, name, kind, 0o755), Model::new()));
        }
        let (mut done, mut refused) = (0, 0);
        for step in 0..400 {
            let which = usize::try_from(random.below(3)).expect("small");
            let (ino, model) = models.values_mut().nth(which).expect("three");
            let name = random_name(&mut random);
            let changed = if random.below(4) == 0 {
                let removed = remove(fs, *ino, &name);
                match (&removed, model.remove(&name)) {
                    (Ok(()), Some(_)) | (Err(Error::NoAttribute(_)), None) => {}
                    (removed, was) => panic!("{arguments} {step}: {removed:?} {was:?}"),
                }
                removed
            } else {
                let value = random_value(&mut random);
                let set = set(fs, *ino, &name, &value);
                if set.is_ok() {
                    model.insert(name, value);
                }
                set
            };
            match changed {
                Ok(()) | Err(Error::NoAttribute(_)) => done += 1,
                Err(Error::AttributeTooLarge(_)) => refused += 1,
                Err(error) => panic!("{arguments}, step {step}: {error}"),
            }
            assert!(all(fs, *ino) == *model, "{arguments}, step {step}");
            if step % 50 == 0 {
                fs.commit(fs.running_tid().expect("tid")).expect("commit");
            }
        }
        println!("{arguments}: {done} changes, {refused} refused");
        check(&writable, &models);
    }
}
