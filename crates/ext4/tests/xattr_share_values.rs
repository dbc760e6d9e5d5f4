//! Values in separate inodes (feature `ea_inode`) that several attributes have, and lists that new
//! files inherit. Both are shared like attributes that are set, as seen by e2fsck and the kernel.

mod attributed;
mod image;
mod writable;

use attributed::{
    NOW, all, check, each, make_files, models, needs, remove, remove_all, root, set, with_variants,
};
use image::new_inode;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::ondisk::xattr::{ValuePlace, XattrEntries};
use larder_ext4::{Error, FileKind, FileTypeByte, Filesystem, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use writable::Writable;

const LAYOUTS: &[&str] = &[
    "-t ext4 -b 1024 -O ea_inode",
    "-t ext4 -b 4096 -O ea_inode,^has_journal",
    "-t ext4 -b 4096 -I 128 -O ea_inode",
    "-t ext4 -b 1024 -O bigalloc,ea_inode -C 4096",
    "-t ext4 -b 1024 -O ea_inode,^extents,^64bit",
];

/// The maximum length of a value that Linux lets programs set.
const MAX_VALUE_BYTES: usize = 1 << 16;

/// Returns all inodes that hold values.
fn value_inodes(fs: &Filesystem) -> BTreeSet<Ino> {
    let all = (fs.superblock().first_ino.0..512).map(Ino);
    all.filter(|&ino| {
        let inode = fs.inode(ino);
        inode.is_ok_and(|inode| inode.flags().contains(InodeFlags::EA_INODE))
    })
    .collect()
}

/// Returns the inodes to which the entries of a file's block refer.
fn values_of_block(fs: &Filesystem, ino: Ino) -> Vec<Ino> {
    let block = fs.inode(ino).expect("inode").file_acl().expect("a block");
    let bytes = fs.metadata_block(block, ino, |_| Ok(())).expect("block");
    let entries = XattrEntries::in_block(&bytes).expect("entries");
    entries
        .filter_map(|entry| match entry.expect("entry").value {
            ValuePlace::Inode { ino, .. } => Some(ino),
            ValuePlace::Inline(_) => None,
        })
        .collect()
}

#[test]
fn value_of_several_attributes_is_one_inode_until_the_last_is_removed() {
    for writable in each(LAYOUTS) {
        let made_by = writable.made_by().to_owned();
        let fs = &writable.fs;
        let files = make_files(fs, 4);
        let value = vec![9; MAX_VALUE_BYTES];
        let names = [&b"user.a"[..], b"user.b", b"trusted.other", b"user.a"];
        for (&ino, name) in files.iter().zip(names) {
            set(fs, ino, name, &value).expect("set");
        }
        // Also another attribute of the same file.
        set(fs, files[0], b"user.more", &value).expect("set");
        let inodes = value_inodes(fs);
        assert_eq!(inodes.len(), 1, "{made_by}");
        assert_eq!(writable.attributes.inodes.stats().entries, 1);

        // A value that differs in its last byte gets another inode.
        let mut other = value.clone();
        *other.last_mut().expect("a byte") = 8;
        set(fs, files[1], b"user.b", &other).expect("set");
        assert_eq!(value_inodes(fs).len(), 2);
        let expected = models(fs, &files);
        for &ino in &files {
            remove_all(fs, ino);
        }
        assert!(value_inodes(fs).is_empty(), "{made_by}");
        assert_eq!(writable.attributes.inodes.stats().entries, 0);
        set(fs, files[0], b"user.a", &value).expect("set");
        assert_eq!(all(fs, files[0])[b"user.a".as_slice()], value);

        // Restore the attributes for the check by e2fsck and the kernel.
        for (&ino, (_, model)) in files.iter().zip(expected.values()) {
            for (name, value) in model {
                set(fs, ino, name, value).expect("set");
            }
        }
        check(&writable, &expected);
    }
}

#[test]
fn block_that_refers_to_a_shared_value_is_shared_too() {
    if needs() {
        return;
    }
    // There is no room in the inode: the entry that refers to the value is in the block.
    for (arguments, variant) in with_variants(&["-t ext4 -b 4096 -I 128 -O ea_inode"]) {
        let writable = Writable::make_sharing(arguments, "20M", variant).expect("mke2fs");
        let fs = &writable.fs;
        let files = make_files(fs, 5);
        let value = vec![9; 10_000];
        for &ino in &files {
            set(fs, ino, b"user.a", &value).expect("set");
            set(fs, ino, b"user.b", &[1; 50]).expect("set");
        }
        let block = |at: usize| fs.inode(files[at]).expect("inode").file_acl();
        assert!((1..5).all(|at| block(at) == block(0)), "{arguments}");
        // The copy has its own reference to the value.
        set(fs, files[4], b"user.b", &[2; 50]).expect("set");
        assert_ne!(block(4), block(0));
        let values = [values_of_block(fs, files[0]), values_of_block(fs, files[4])];
        assert_eq!(values[0], values[1]);
        remove(fs, files[3], b"user.a").expect("removed");
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

#[test]
fn value_is_shared_after_a_remount_once_it_was_read() {
    for writable in each(LAYOUTS) {
        let made_by = writable.made_by().to_owned();
        let files = make_files(&writable.fs, 2);
        set(&writable.fs, files[0], b"user.a", &[3; 9000]).expect("set");
        let writable = writable.remount();
        let fs = &writable.fs;
        all(fs, files[0]);
        set(fs, files[1], b"user.b", &[3; 9000]).expect("set");
        assert_eq!(value_inodes(fs).len(), 1, "{made_by}");
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

/// Returns a list with read permission for `users` users, in the format of the system calls.
fn list(users: u32) -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let mut list = vec![(0x01_u16, 7_u16, NO_ID)];
    list.extend((0..users).map(|user| (0x02, 4, 1000 + user)));
    list.extend([(0x04, 5, NO_ID), (0x10, 5, NO_ID), (0x20, 0, NO_ID)]);
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in list {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn inherited_lists_share_one_block() {
    for writable in each(&["-t ext2 -b 1024 -I 128", "-t ext4 -b 4096"]) {
        let made_by = writable.made_by().to_owned();
        let fs = &writable.fs;
        set(fs, Ino::ROOT, b"system.posix_acl_default", &list(40)).expect("set");
        let mut blocks = BTreeSet::new();
        for number in 0..20 {
            let mut handle = fs.start(60).expect("handle");
            let mut parent = root(fs);
            let new = new_inode(FileKind::Regular, 0o644, NOW);
            let mut inode = fs.create_inode(&mut handle, &parent, &new).expect("inode");
            fs.inherit_acl(&mut handle, &parent, &mut inode, 0)
                .expect("inherited");
            let target = (inode.ino(), FileTypeByte(1));
            fs.add_entry(
                &mut handle,
                &mut parent,
                format!("{number}").as_bytes(),
                target,
            )
            .expect("entry");
            fs.write_inode(&mut handle, &parent).expect("written");
            handle.stop();
            blocks.insert(inode.file_acl().expect("a block"));
        }
        assert_eq!(blocks.len(), 1, "{made_by}");
        check(&writable, &BTreeMap::new());
    }
}

/// Sets attributes whose block of 4 KiB refers to many value inodes, each in its own block of the
/// inode table. Another attribute fills the file's inode.
fn set_values(fs: &Filesystem, ino: Ino, numbers: Range<usize>) -> Result<(), Error> {
    set(fs, ino, b"user.filler", &[1; 3800])?;
    for number in numbers {
        let text = format!("value {number} ");
        let value: Vec<u8> = text.bytes().cycle().take(5000).collect();
        set(fs, ino, format!("user.{number:03}").as_bytes(), &value)?;
    }
    Ok(())
}

const ONE_INODE_A_BLOCK: &str = "-t ext4 -b 4096 -I 4096 -N 512 -O ea_inode -J size=4";

#[test]
fn block_that_refers_to_many_values_is_copied_and_shared_again() {
    const VALUES: usize = 100;
    if needs() {
        return;
    }
    let writable = Writable::make(ONE_INODE_A_BLOCK, "40M").expect("mke2fs");
    let fs = &writable.fs;
    let files = make_files(fs, 2);
    for &ino in &files {
        set_values(fs, ino, 0..VALUES).expect("set");
    }
    assert_eq!(value_inodes(fs).len(), VALUES);
    let block = |at: usize| fs.inode(files[at]).expect("inode").file_acl();
    assert_eq!(block(0), block(1));
    set(fs, files[0], b"user.small", &[2; 100]).expect("set");
    assert_ne!(block(0), block(1));
    set(fs, files[1], b"user.small", &[2; 100]).expect("set");
    assert_eq!(block(0), block(1));
    remove(fs, files[1], b"user.000").expect("removed");
    remove(fs, files[0], b"user.000").expect("removed");
    assert_eq!(block(0), block(1));
    assert_eq!(value_inodes(fs).len(), VALUES - 1);
    let expected = models(fs, &files);
    check(&writable, &expected);
}

/// Without its first value, the block equals another one. A file that is being deleted must not
/// share that block.
#[test]
fn file_that_is_being_deleted_value_by_value_is_not_shared() {
    if needs() {
        return;
    }
    let writable = Writable::make(ONE_INODE_A_BLOCK, "40M").expect("mke2fs");
    let fs = &writable.fs;
    let files = make_files(fs, 2);
    set_values(fs, files[0], 0..60).expect("set");
    set_values(fs, files[1], 1..60).expect("set");
    let shares = fs.share_counts().shares;
    remove_all(fs, files[0]);
    assert_eq!(fs.share_counts().shares, shares);
    assert_eq!(value_inodes(fs).len(), 59);
    let expected = models(fs, &files);
    check(&writable, &expected);
}

/// The journal has 1,024 blocks, and a handle can have at most a quarter of them.
#[test]
fn change_of_more_values_than_the_journal_admits_is_refused() {
    if needs() {
        return;
    }
    let writable = Writable::make(ONE_INODE_A_BLOCK, "40M").expect("mke2fs");
    let fs = &writable.fs;
    let files = make_files(fs, 1);
    let set_all = set_values(fs, files[0], 0..203);
    assert!(matches!(set_all, Err(Error::HandleTooLarge)), "{set_all:?}");
    assert!(value_inodes(fs).len() > 150);
    let removed = remove(fs, files[0], b"user.000");
    assert!(matches!(removed, Err(Error::HandleTooLarge)), "{removed:?}");
    remove_all(fs, files[0]);
    assert!(value_inodes(fs).is_empty());
    let expected = models(fs, &files);
    check(&writable, &expected);
}
