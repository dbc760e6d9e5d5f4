//! Attributes that several files have: what is shared, counted, copied and found again, as e2fsck
//! and the kernel see it.

mod attributed;
mod image;
mod writable;

use attributed::{
    Model, all, check, make, needs, remove, remove_all, set, set_by_kernel, set_undone,
};
use larder_ext4::ondisk::xattr::BlockHeader;
use larder_ext4::{Error, FileKind, Filesystem, FsBlock, Ino, XattrMode};
use larder_testkit::seed::{Random, Seed};
use std::collections::{BTreeMap, BTreeSet};
use writable::Writable;

const LAYOUTS: &[&str] = &[
    "-t ext2 -b 1024 -I 128",
    "-t ext2 -b 4096",
    "-t ext3 -b 1024",
    "-t ext4 -b 1024",
    "-t ext4 -b 4096 -O ^has_journal",
    "-t ext4 -b 4096 -O ea_inode",
    "-t ext4 -b 1024 -O bigalloc,ea_inode -C 4096",
    "-t ext4 -b 1024 -O ea_inode,^extents,^64bit -I 128",
];

const MAX_USERS: u32 = 1024;

fn block_of(fs: &Filesystem, ino: Ino) -> Option<FsBlock> {
    fs.inode(ino).expect("inode").file_acl()
}

fn header(fs: &Filesystem, block: FsBlock) -> BlockHeader {
    let bytes = fs.metadata_block(block, Ino::ROOT, |_| Ok(()));
    BlockHeader::of(&bytes.expect("block")).expect("a header")
}

/// Makes `count` files, named by their numbers.
fn make_files(fs: &Filesystem, count: usize) -> Vec<Ino> {
    (0..count)
        .map(|number| make(fs, &format!("{number}"), FileKind::Regular, 0o644))
        .collect()
}

fn commit(fs: &Filesystem) {
    fs.commit(fs.running_tid().expect("tid")).expect("commit");
}

/// What the files have, by their names.
fn models(fs: &Filesystem, files: &[Ino]) -> BTreeMap<String, (Ino, Model)> {
    let with_name = |(number, &ino): (usize, &Ino)| (number.to_string(), (ino, all(fs, ino)));
    files.iter().enumerate().map(with_name).collect()
}

/// Values that fit into no inode, each another.
fn value(number: usize) -> Vec<u8> {
    let text = format!("value {number} ");
    text.bytes().cycle().take(300).collect()
}

#[test]
fn files_with_equal_attributes_take_one_block_for_each_set() {
    const FILES: usize = 200;
    const SETS: usize = 7;
    if needs() {
        return;
    }
    for arguments in LAYOUTS {
        let writable = Writable::make(arguments, "20M").expect("mke2fs");
        let fs = &writable.fs;
        let files = make_files(fs, FILES);
        commit(fs);
        let (free_before, _) = writable.free_by_dumpe2fs();
        for (number, &ino) in files.iter().enumerate() {
            // What comes last makes the sets equal: it matters not what was there before.
            set(fs, ino, b"user.b", &value(number)).expect("set");
            set(fs, ino, b"user.a", &value(number % SETS)[..200]).expect("set");
            set(fs, ino, b"user.b", &value(number % SETS)).expect("set");
        }
        let blocks: BTreeSet<_> = files.iter().map(|&ino| block_of(fs, ino)).collect();
        assert_eq!(blocks.len(), SETS, "{arguments}");
        let counts = fs.share_counts();
        let saved_bytes = counts.shares * fs.superblock().cluster_size_bytes();
        assert!(counts.shares >= (FILES - SETS) as u64, "{counts:?}");
        assert_eq!(counts.saved_bytes, saved_bytes);
        let expected = models(fs, &files);
        check(&writable, &expected);
        let (free_after, _) = writable.free_by_dumpe2fs();
        assert_eq!(free_before.len() - free_after.len(), SETS, "{arguments}");
    }
}

/// Files with few attributes of few values are changed at random, and now and then a change is undone.
/// Reading tells the cache of what an undone change made it forget.
#[test]
fn sharing_is_perfect_after_any_changes() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(0x5a4e);
    println!("seed {seed}");
    for (number, arguments) in (0..).zip(LAYOUTS) {
        let mut random = Random::new(seed.part(number));
        let mut writable = Writable::make(arguments, "20M").expect("mke2fs");
        let has_inodes = arguments.contains("ea_inode");
        let files = make_files(&writable.fs, 12);
        let mut expected = vec![Model::new(); files.len()];
        for step in 0..300 {
            let fs = &writable.fs;
            let which = usize::try_from(random.below(12)).expect("small");
            let (ino, model) = (files[which], &mut expected[which]);
            let name = format!("user.{}", random.below(2)).into_bytes();
            let len = match random.below(10) {
                0 if has_inodes => 6000,
                0..3 => 60,
                _ => 250,
            };
            let value = vec![b'a' + random.next_u64().to_le_bytes()[0] % 2; len];
            match random.below(10) {
                0 => set_undone(fs, ino, &name, &value),
                1..4 => match (remove(fs, ino, &name), model.remove(&name)) {
                    (Ok(()), Some(_)) | (Err(Error::NoAttribute(_)), None) => {}
                    (removed, was) => panic!("{arguments} {step}: {removed:?} {was:?}"),
                },
                _ => {
                    set(fs, ino, &name, &value).expect("set");
                    model.insert(name, value);
                }
            }
            for (&ino, model) in files.iter().zip(&expected) {
                assert!(all(fs, ino) == *model, "{arguments}, step {step}");
            }
            assert_shared_perfectly(fs, &files, arguments);
            if step % 100 == 99 {
                assert!(fs.share_counts().shares > 10, "{arguments}");
                writable = writable.remount();
                models(&writable.fs, &files);
            }
        }
        let expected = models(&writable.fs, &files);
        check(&writable, &expected);
    }
}

/// No two blocks of the files hold the same, and each counts those that have it.
fn assert_shared_perfectly(fs: &Filesystem, files: &[Ino], arguments: &str) {
    let mut users = BTreeMap::new();
    for block in files.iter().filter_map(|&ino| block_of(fs, ino)) {
        *users.entry(block).or_insert(0) += 1;
    }
    let mut contents = BTreeSet::new();
    for (&block, &users) in &users {
        assert_eq!(header(fs, block).references, users, "{arguments}");
        let bytes = fs.metadata_block(block, Ino::ROOT, |_| Ok(()));
        let entries = bytes.expect("block")[32..].to_vec();
        assert!(
            contents.insert(entries),
            "{arguments}: {block} is there twice"
        );
    }
}

#[test]
fn block_with_1024_users_is_not_given_to_another_until_one_leaves() {
    if needs() {
        return;
    }
    for arguments in ["-t ext2 -b 1024 -I 128", "-t ext4 -b 4096"] {
        let writable = Writable::make(arguments, "20M").expect("mke2fs");
        let fs = &writable.fs;
        let files = make_files(fs, 1030);
        let set_value = |at: usize| {
            set(fs, files[at], b"user.a", &value(1)).expect("set");
            block_of(fs, files[at]).expect("a block")
        };
        let first = set_value(0);
        assert!((1..1024).all(|at| set_value(at) == first), "{arguments}");
        assert_eq!(header(fs, first).references, MAX_USERS);
        let second = set_value(1024);
        assert_ne!(second, first, "the 1,025th user");
        assert_eq!(set_value(1025), second);

        // The one who leaves makes room for one, with nobody left in the second.
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

#[test]
fn shared_block_is_copied_by_who_changes_it_and_found_by_who_changes_back() {
    if needs() {
        return;
    }
    for arguments in LAYOUTS {
        let writable = Writable::make(arguments, "20M").expect("mke2fs");
        let fs = &writable.fs;
        let files = make_files(fs, 3);
        for &ino in &files {
            set(fs, ino, b"user.a", &value(1)).expect("set");
        }
        let [a, b, c] = [0, 1, 2].map(|at| block_of(fs, files[at]));
        assert!(a.is_some() && a == b && b == c);
        set(fs, files[1], b"user.a", &value(2)).expect("set");
        assert_ne!(block_of(fs, files[1]), a);
        assert_eq!(all(fs, files[0])[b"user.a".as_slice()], value(1));
        set(fs, files[1], b"user.a", &value(1)).expect("set");
        assert_eq!(block_of(fs, files[1]), a);
        remove_all(fs, files[0]);
        assert_eq!(header(fs, a.expect("a block")).references, 2);
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

#[test]
fn block_is_found_after_a_remount_by_reading_who_has_it() {
    if needs() {
        return;
    }
    for arguments in LAYOUTS {
        let writable = Writable::make(arguments, "20M").expect("mke2fs");
        let files = make_files(&writable.fs, 3);
        set(&writable.fs, files[0], b"user.a", &value(1)).expect("set");
        let writable = writable.remount();
        let fs = &writable.fs;
        // Nobody has told of it yet.
        set(fs, files[1], b"user.a", &value(1)).expect("set");
        let (first, second) = (block_of(fs, files[0]), block_of(fs, files[1]));
        assert_ne!(first, second);
        remove(fs, files[1], b"user.a").expect("removed");
        all(fs, files[0]);
        set(fs, files[2], b"user.a", &value(1)).expect("set");
        assert_eq!(block_of(fs, files[2]), first);
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

#[test]
fn block_that_the_kernel_wrote_is_shared() {
    if needs() {
        return;
    }
    for arguments in ["-t ext2 -b 1024 -I 128", "-t ext4 -b 4096"] {
        let writable = attributed::after_kernel(arguments, |root| {
            let path = root.join("0");
            std::fs::write(&path, "").expect("file");
            set_by_kernel(&path, "user.a", &value(1));
        });
        let fs = &writable.fs;
        let theirs = attributed::lookup(fs, "0").ino();
        let ours = make(fs, "1", FileKind::Regular, 0o644);
        all(fs, theirs);
        set(fs, ours, b"user.a", &value(1)).expect("set");
        assert_eq!(block_of(fs, ours), block_of(fs, theirs), "{arguments}");
        let expected = models(fs, &[theirs, ours]);
        check(&writable, &expected);
    }
}

#[test]
fn change_that_is_undone_leaves_no_entry() {
    if needs() {
        return;
    }
    for arguments in LAYOUTS {
        let writable = Writable::make(arguments, "20M").expect("mke2fs");
        let fs = &writable.fs;
        let files = make_files(fs, 2);
        set_undone(fs, files[0], b"user.a", &value(1));
        if arguments.contains("ea_inode") {
            set_undone(fs, files[0], b"user.a", &[7; 6000]);
        }
        let entries = || {
            let caches = &writable.attributes;
            caches.blocks.stats().entries + caches.inodes.stats().entries
        };
        assert_eq!(entries(), 0, "{arguments}");
        set(fs, files[1], b"user.a", &value(1)).expect("set");
        assert_eq!((entries(), fs.share_counts().shares), (1, 0));
        // Neither counted nor freed by what is undone.
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

/// The last two words of a value decide what its hash is: another pair has the same.
fn colliding(number: u32) -> Vec<u8> {
    let mut value = vec![b'v'; 292];
    value.extend(number.to_le_bytes());
    value.extend((!number.rotate_left(16)).to_le_bytes());
    value
}

#[test]
fn contents_with_one_hash_are_not_taken_for_one_another() {
    if needs() {
        return;
    }
    for arguments in ["-t ext2 -b 1024 -I 128", "-t ext4 -b 4096"] {
        let writable = Writable::make(arguments, "20M").expect("mke2fs");
        let fs = &writable.fs;
        let files = make_files(fs, 4);
        for (ino, number) in files.iter().zip([1, 2, 1, 2]) {
            set(fs, *ino, b"user.a", &colliding(number)).expect("set");
        }
        let blocks: Vec<_> = files
            .iter()
            .map(|&ino| block_of(fs, ino).expect("a block"))
            .collect();
        assert_eq!(header(fs, blocks[0]).hash, header(fs, blocks[1]).hash);
        assert_ne!(blocks[0], blocks[1]);
        assert_eq!(blocks[..2], blocks[2..]);
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

/// Of contents with one hash, 16 are compared: so 32 that are set one by one, and then again by others
/// in the same order, share little.
#[test]
fn contents_with_one_hash_are_compared_with_a_few_only() {
    const MOST_COMPARED: u64 = 16;
    if needs() {
        return;
    }
    let writable = Writable::make("-t ext4 -b 1024", "20M").expect("mke2fs");
    let fs = &writable.fs;
    let files = make_files(fs, 64);
    for (ino, number) in files.iter().zip((0..32).chain(0..32)) {
        set(fs, *ino, b"user.a", &colliding(number)).expect("set");
    }
    assert!(fs.share_counts().shares <= MOST_COMPARED);
    let expected = models(fs, &files);
    check(&writable, &expected);
}

/// A hash of 0 says that a block is not to be shared, and an entry's of 0 makes it so.
#[test]
fn contents_without_a_hash_are_not_shared() {
    if needs() {
        return;
    }
    let writable = Writable::make("-t ext4 -b 1024 -I 128", "20M").expect("mke2fs");
    let fs = &writable.fs;
    let files = make_files(fs, 2);
    let mut value = vec![0; 300];
    value[..4].copy_from_slice(&u32::from(b'a').rotate_left(16).to_le_bytes());
    for &ino in &files {
        set(fs, ino, b"user.a", &value).expect("set");
    }
    let blocks = [0, 1].map(|at| block_of(fs, files[at]).expect("a block"));
    assert_ne!(blocks[0], blocks[1]);
    assert_eq!(header(fs, blocks[0]).hash, 0);
    let expected = models(fs, &files);
    check(&writable, &expected);
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
        // Header and end; then entry and name, padded.
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
fn block_whose_count_lies_is_not_given_to_others() {
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

        let writable = Writable::open(bytes, "a count that lies".to_owned());
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

/// What is planned before the handle may find, in it, that the block has more users, or fewer.
#[test]
fn block_whose_users_change_after_the_plan_is_copied_or_changed_as_they_are_then() {
    if needs() {
        return;
    }
    for arguments in LAYOUTS {
        for is_shared_at_plan in [false, true] {
            let writable = Writable::make(arguments, "20M").expect("mke2fs");
            let fs = &writable.fs;
            let files = make_files(fs, 2);
            set(fs, files[0], b"user.a", &value(1)).expect("set");
            if is_shared_at_plan {
                set(fs, files[1], b"user.a", &value(1)).expect("set");
            }
            let block = block_of(fs, files[0]);
            let inode = fs.inode(files[0]).expect("inode");
            let new = value(2);
            let planned = fs.plan_set_xattr(&inode, b"user.a", &new, XattrMode::Any);
            let change = planned.expect("planned").expect("a change");
            if is_shared_at_plan {
                remove(fs, files[1], b"user.a").expect("removed");
            } else {
                set(fs, files[1], b"user.a", &value(1)).expect("set");
                assert_eq!(block_of(fs, files[1]), block);
            }
            let mut handle = fs.start(fs.xattr_credits()).expect("handle");
            let mut inode = fs.inode(files[0]).expect("inode");
            fs.change_xattrs(&mut handle, &mut inode, change)
                .expect("changed");
            handle.stop();
            let stays = block_of(fs, files[0]) == block;
            assert_eq!(stays, is_shared_at_plan, "{arguments}");
            let expected = models(fs, &files);
            assert_eq!(expected["0"].1[b"user.a".as_slice()], new);
            check(&writable, &expected);
        }
    }
}
