//! Changes that are undone, and cache entries that should not exist: neither affects later sharing.

mod attributed;
mod image;
mod writable;

use attributed::{
    LAYOUTS, block_of, check, commit, each, header, make_files, models, needs, remove, set,
    set_undone, value, with_variants,
};
use larder_ext4::{Error, XattrOffer};
use std::collections::BTreeSet;
use writable::Writable;

#[test]
fn change_that_is_undone_leaves_no_entry() {
    for writable in each(LAYOUTS) {
        let made_by = writable.made_by().to_owned();
        let fs = &writable.fs;
        let files = make_files(fs, 2);
        set_undone(fs, files[0], b"user.a", &value(1));
        if made_by.contains("ea_inode") {
            set_undone(fs, files[0], b"user.a", &[7; 6000]);
        }
        let entries = || {
            let caches = &writable.attributes;
            caches.blocks.stats().entries + caches.inodes.stats().entries
        };
        assert_eq!(entries(), 0, "{made_by}");
        set(fs, files[1], b"user.a", &value(1)).expect("set");
        assert_eq!((entries(), fs.share_counts().shares), (1, 0));
        // The undone change neither counts a user nor frees the block.
        let block = block_of(fs, files[1]).expect("a block");
        set_undone(fs, files[0], b"user.a", &value(1));
        assert_eq!(header(fs, block).references, 1);
        assert_eq!(fs.share_counts().shares, 0);
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

#[test]
fn set_that_lacks_space_leaves_no_entry_and_no_user() {
    if needs() {
        return;
    }
    for (arguments, size, value_bytes) in [
        ("-t ext2 -b 1024 -I 128 -N 500", "400K", 300),
        (
            "-t ext4 -b 1024 -O ea_inode,^has_journal -N 500",
            "2M",
            40_000,
        ),
    ] {
        let writable = Writable::make(arguments, size).expect("mke2fs");
        let fs = &writable.fs;
        let files = make_files(fs, 400);
        let mut made = 0;
        let lacking = files.iter().enumerate().find(|&(number, &ino)| {
            let value = value(number).into_iter().cycle().take(value_bytes);
            match set(fs, ino, b"user.a", &value.collect::<Vec<_>>()) {
                Ok(()) => made += 1,
                Err(Error::NoSpace) => return true,
                Err(error) => panic!("{arguments}: {error}"),
            }
            false
        });
        assert!(lacking.is_some() && made > 10, "{made}");
        let caches = &writable.attributes;
        let blocks: BTreeSet<_> = files.iter().filter_map(|&ino| block_of(fs, ino)).collect();
        assert_eq!(caches.blocks.stats().entries, blocks.len() as u64);
        let inodes = if value_bytes > 1024 { made } else { 0 };
        assert_eq!(caches.inodes.stats().entries, inodes);
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

/// An inode that is read without its lock may refer to a block that is already free.
#[test]
fn free_block_with_a_cache_entry_is_not_shared() {
    if needs() {
        return;
    }
    for (arguments, variant) in with_variants(LAYOUTS) {
        for offer in [XattrOffer::Nothing, XattrOffer::UnderLock] {
            let writable = Writable::make_sharing(arguments, "20M", variant).expect("mke2fs");
            let files = make_files(&writable.fs, 2);
            set(&writable.fs, files[0], b"user.a", &value(1)).expect("set");
            commit(&writable.fs);
            let writable = writable.remount();
            let fs = &writable.fs;
            let seen = fs.inode(files[0]).expect("inode");
            let block = block_of(fs, files[0]);
            remove(fs, files[0], b"user.a").expect("removed");

            let stale = fs.xattr(&seen, b"user.a", offer).expect("read");
            assert_eq!(stale, Some(value(1)));
            let entries = writable.attributes.blocks.stats().entries;
            assert_eq!(entries, u64::from(offer == XattrOffer::UnderLock));
            set(fs, files[1], b"user.a", &value(1)).expect("set");
            assert_ne!(block_of(fs, files[1]), block, "{arguments}, {variant}");
            assert_eq!(fs.share_counts().shares, 0);
            let expected = models(fs, &files);
            check(&writable, &expected);
        }
    }
}
