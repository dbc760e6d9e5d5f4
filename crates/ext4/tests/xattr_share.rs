//! Attributes of several files: sharing, reference counts, copies and later searches, as seen by
//! e2fsck and the kernel.

mod attributed;
mod image;
mod writable;

use attributed::{
    LAYOUTS, Model, all, block_of, check, commit, each, header, make, make_files, models, needs,
    remove, remove_all, set, set_by_kernel, set_undone, start, value, with_variants,
};
use larder_cache::mbcache::Variant;
use larder_ext4::{Error, FileKind, Filesystem, Ino, ShareCounts, XattrMode};
use larder_testkit::seed::{Random, Seed};
use std::collections::{BTreeMap, BTreeSet};
use writable::Writable;

#[test]
fn files_with_equal_attributes_take_one_block_for_each_set() {
    const FILES: usize = 200;
    const SETS: usize = 7;
    for writable in each(LAYOUTS) {
        let made_by = writable.made_by().to_owned();
        let fs = &writable.fs;
        let files = make_files(fs, FILES);
        commit(fs);
        let (free_before, _) = writable.free_by_dumpe2fs();
        for (number, &ino) in files.iter().enumerate() {
            // Only the last change can make the attributes equal to those of another file.
            set(fs, ino, b"user.b", &value(number)).expect("set");
            set(fs, ino, b"user.a", &value(number % SETS)[..200]).expect("set");
            set(fs, ino, b"user.b", &value(number % SETS)).expect("set");
        }
        let blocks: BTreeSet<_> = files.iter().map(|&ino| block_of(fs, ino)).collect();
        assert_eq!(blocks.len(), SETS, "{made_by}");
        let counts = fs.share_counts();
        let users_beyond_the_first = (FILES - SETS) as u64;
        let saved_bytes = users_beyond_the_first * fs.superblock().cluster_size_bytes();
        assert!(counts.shares >= users_beyond_the_first, "{counts:?}");
        assert_eq!(counts.saved_bytes, saved_bytes, "{made_by}");
        let expected = models(fs, &files);
        check(&writable, &expected);
        let (free_after, _) = writable.free_by_dumpe2fs();
        assert_eq!(free_before.len() - free_after.len(), SETS, "{made_by}");
    }
}

/// Files with few attributes of few values are changed at random, and some changes are undone. Reading
/// offers contents again that an undone change withdrew.
#[test]
fn sharing_is_perfect_after_any_changes() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(0x5a4e);
    println!("seed {seed}");
    for (number, (arguments, variant)) in (0..).zip(with_variants(LAYOUTS)) {
        let mut random = Random::new(seed.part(number));
        let mut writable = Writable::make_sharing(arguments, "20M", variant).expect("mke2fs");
        let has_inodes = arguments.contains("ea_inode");
        let files = make_files(&writable.fs, 12);
        let mut expected = vec![Model::new(); files.len()];
        let free_at_first = writable.fs.statfs().free_blocks;
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
            if step < 100 {
                let taken = free_at_first - fs.statfs().free_blocks;
                let saved_bytes = space_bytes(fs, &files) - taken * block_bytes(fs);
                let counts = fs.share_counts();
                assert_eq!(counts.saved_bytes, saved_bytes, "{arguments}, step {step}");
            }
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

fn block_bytes(fs: &Filesystem) -> u64 {
    fs.superblock().block_size_bytes().into()
}

/// Returns the space of all the files, each counted separately.
fn space_bytes(fs: &Filesystem, files: &[Ino]) -> u64 {
    let blocks_512 = files.iter().map(|&ino| {
        let inode = fs.inode(ino).expect("inode");
        inode.blocks_512(fs.superblock().block_size_bytes())
    });
    blocks_512.sum::<u64>() * 512
}

/// Asserts that no two blocks of the files have the same contents, and that each block's count is its
/// number of users.
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
fn shared_block_is_copied_by_a_change_and_shared_again_by_a_change_back() {
    for writable in each(LAYOUTS) {
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
fn repeated_sharing_by_one_file_is_saved_only_once() {
    const CHANGES: u64 = 200;
    for writable in each(LAYOUTS) {
        let made_by = writable.made_by().to_owned();
        let fs = &writable.fs;
        let files = make_files(fs, 3);
        set(fs, files[0], b"user.a", &value(0)).expect("set");
        set(fs, files[1], b"user.a", &value(1)).expect("set");
        assert_eq!(fs.share_counts(), ShareCounts::default(), "{made_by}");
        let saved_bytes = fs.superblock().cluster_size_bytes();
        for change in 0..CHANGES {
            let other = usize::from(change % 2 == 1);
            set(fs, files[2], b"user.a", &value(other)).expect("set");
            set_undone(fs, files[2], b"user.a", &value(1 - other));
            let shares = change + 1;
            let expected = ShareCounts {
                shares,
                saved_bytes,
            };
            assert_eq!(fs.share_counts(), expected, "{made_by}");
        }
        remove_all(fs, files[2]);
        let expected = ShareCounts {
            shares: CHANGES,
            saved_bytes: 0,
        };
        assert_eq!(fs.share_counts(), expected, "{made_by}");
    }
}

/// Blocks that were shared before the mount are not counted as shares of the mount. When a file stops
/// using such a block, the saved space does not fall below 0.
#[test]
fn block_shared_before_the_mount_counts_no_savings() {
    if needs() {
        return;
    }
    let arguments = "-t ext4 -b 4096";
    let writable = Writable::make_sharing(arguments, "20M", Variant::Referenced).expect("mke2fs");
    let files = make_files(&writable.fs, 3);
    for &ino in &files {
        set(&writable.fs, ino, b"user.a", &value(1)).expect("set");
    }
    let writable = writable.remount();
    let fs = &writable.fs;
    assert_eq!(fs.share_counts(), ShareCounts::default());
    remove(fs, files[0], b"user.a").expect("removed");
    assert_eq!(fs.share_counts().saved_bytes, 0);
    all(fs, files[1]);
    set(fs, files[0], b"user.a", &value(1)).expect("set");
    assert_eq!(fs.share_counts().saved_bytes, 4096);
}

#[test]
fn block_is_shared_after_a_remount_once_it_was_read() {
    for writable in each(LAYOUTS) {
        let files = make_files(&writable.fs, 3);
        set(&writable.fs, files[0], b"user.a", &value(1)).expect("set");
        let writable = writable.remount();
        let fs = &writable.fs;
        // The block was not offered yet.
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

/// The number of users of a block may change between the plan and the handle.
#[test]
fn change_uses_the_user_count_at_the_time_of_the_handle() {
    if needs() {
        return;
    }
    for (arguments, variant) in with_variants(LAYOUTS) {
        for is_shared_at_plan in [false, true] {
            let writable = Writable::make_sharing(arguments, "20M", variant).expect("mke2fs");
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
            let (mut handle, mut inode) = start(fs, files[0]).expect("handle");
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
