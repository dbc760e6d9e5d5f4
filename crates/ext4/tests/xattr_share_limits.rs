//! Attribute blocks with the maximum number of users, or of bytes, and with wrong counts.

mod attributed;
mod image;
mod writable;

use attributed::{
    all, block_of, check, each, header, make_files, models, needs, remove, remove_undone, set,
    set_undone, value, with_variants,
};
use larder_ext4::Error;
use std::collections::BTreeSet;
use writable::Writable;

const MAX_USERS: u32 = 1024;

#[test]
fn block_with_1024_users_is_not_shared_until_one_leaves() {
    for writable in each(&["-t ext2 -b 1024 -I 128", "-t ext4 -b 4096"]) {
        let made_by = writable.made_by().to_owned();
        let fs = &writable.fs;
        let files = make_files(fs, 1030);
        let set_value = |at: usize| {
            set(fs, files[at], b"user.a", &value(1)).expect("set");
            block_of(fs, files[at]).expect("a block")
        };
        let first = set_value(0);
        assert!((1..1024).all(|at| set_value(at) == first), "{made_by}");
        assert_eq!(header(fs, first).references, MAX_USERS);
        let second = set_value(1024);
        assert_ne!(second, first, "the 1,025th user");
        assert_eq!(set_value(1025), second);

        // The second block loses both of its users, and the first block one of its 1,024.
        for at in [1024, 1025, 7] {
            remove(fs, files[at], b"user.a").expect("removed");
        }
        assert_eq!(header(fs, first).references, MAX_USERS - 1);
        assert_eq!(set_value(1026), first);
        assert_ne!(set_value(1027), first);
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

/// The maximum number of users stays the same if the addition or the removal of a user is undone.
#[test]
fn block_is_shared_by_1024_users_after_undone_changes() {
    if needs() {
        return;
    }
    for (arguments, variant) in with_variants(&["-t ext2 -b 1024 -I 128", "-t ext4 -b 4096"]) {
        let what = format!("{arguments}, {variant}");
        let writable = Writable::make_sharing(arguments, "20M", variant).expect("mke2fs");
        let fs = &writable.fs;
        let files = make_files(fs, 1028);
        let (name, value) = (b"user.a", value(1));
        let set_value = |at: usize| {
            set(fs, files[at], name, &value).expect("set");
            block_of(fs, files[at]).expect("a block")
        };
        let first = set_value(0);
        let users = || header(fs, first).references;
        assert!((1..1023).all(|at| set_value(at) == first), "{what}");
        set_undone(fs, files[1023], name, &value);
        assert_eq!(users(), MAX_USERS - 1, "{what}");
        assert_eq!(set_value(1023), first, "the 1,024th, {what}");

        set_undone(fs, files[1024], name, &value);
        remove_undone(fs, files[0], name);
        assert_eq!(users(), MAX_USERS, "{what}");
        let second = set_value(1024);
        assert_ne!(second, first, "the 1,025th, {what}");

        // Reading the block while it is full does not change that.
        all(fs, files[0]);
        assert_eq!(set_value(1025), second, "{what}");
        for at in [1024, 1025, 0] {
            remove(fs, files[at], name).expect("removed");
        }
        set_undone(fs, files[1026], name, &value);
        assert_eq!(set_value(1026), first, "{what}");
        assert_ne!(set_value(1027), first, "{what}");
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

#[test]
fn block_that_is_full_to_its_last_byte_is_shared() {
    if needs() {
        return;
    }
    for (arguments, block_bytes) in [
        ("-t ext2 -b 1024 -I 128", 1024),
        ("-t ext4 -b 4096 -I 128", 4096),
        ("-t ext4 -b 65536 -I 128", 65536),
    ] {
        let writable = Writable::make(arguments, "40M").expect("mke2fs");
        let fs = &writable.fs;
        let files = make_files(fs, 3);
        // Header and end; then the entry and its padded name.
        let most = block_bytes - 36 - 20;
        let mut value = vec![5; most];
        for &ino in &files {
            set(fs, ino, b"user.a", &value).expect("set");
        }
        let blocks: BTreeSet<_> = files.iter().map(|&ino| block_of(fs, ino)).collect();
        assert_eq!(blocks.len(), 1, "{arguments}");
        value.push(5);
        let larger = set(fs, files[0], b"user.a", &value);
        assert!(matches!(larger, Err(Error::AttributeTooLarge(_))));
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

#[test]
fn block_with_a_wrong_reference_count_is_not_shared() {
    if needs() {
        return;
    }
    for (references, is_damage) in [(0, true), (1025, false), (u32::MAX, false)] {
        let writable = Writable::make("-t ext2 -b 1024 -I 128", "12M").expect("mke2fs");
        let files = make_files(&writable.fs, 3);
        set(&writable.fs, files[0], b"user.a", &value(1)).expect("set");
        let block = block_of(&writable.fs, files[0]).expect("a block");
        writable.fs.close().expect("closed");
        let mut bytes = writable.device.to_bytes();
        let at = usize::try_from(block.0).expect("small") * 1024 + 4;
        bytes[at..at + 4].copy_from_slice(&references.to_le_bytes());

        let writable = Writable::open(bytes, "a wrong reference count".to_owned());
        let fs = &writable.fs;
        all(fs, files[0]);
        for &ino in &files[1..] {
            set(fs, ino, b"user.a", &value(1)).expect("set");
            assert_ne!(block_of(fs, ino), Some(block));
        }
        assert_eq!(header(fs, block).references, references);
        let removed = remove(fs, files[0], b"user.a");
        assert_eq!(removed.is_err(), is_damage, "{references}: {removed:?}");
    }
}
