//! Placement by the allocator: files are packed, growing files have few pieces, and directories are
//! spread.

mod image;
mod writable;

use image::new_inode;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{Claim, FileKind, FileTypeByte, Filesystem, FsBlock, Goal, Ino, Inode};
use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use writable::Writable;

fn take(fs: &Filesystem, claim: Claim) {
    let mut handle = fs.start(8).unwrap();
    fs.take(&mut handle, claim).unwrap();
    handle.stop();
}

/// Claims and takes `want` blocks in total, and returns the runs.
fn append(fs: &Filesystem, mut goal: Goal, mut want: u32) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    while want > 0 {
        let claim = fs.claim(goal, want, None).unwrap();
        let (start, blocks) = (claim.start().0, u64::from(claim.blocks()));
        take(fs, claim);
        runs.push((start, blocks));
        want = want.saturating_sub(u32::try_from(blocks).unwrap());
        goal.near = FsBlock(start + blocks);
        goal.file_blocks += blocks;
    }
    runs
}

#[test]
fn small_files_with_one_goal_are_adjacent() {
    let Some(writable) = Writable::make("-t ext4 -b 1024 -O ^has_journal", "64M") else {
        return;
    };
    let fs = &writable.fs;
    let root = fs.inode(Ino::ROOT).unwrap();
    let mut next = None;
    for file in 0..200 {
        let goal = Goal {
            near: fs.home_goal(&root),
            ino: Ino(20 + file),
            ..Goal::default()
        };
        let runs = append(fs, goal, 1 + file % 9);
        assert_eq!(runs.len(), 1);
        let (start, blocks) = runs[0];
        assert!(
            next.is_none_or(|next| next == start),
            "file {file} at {start}"
        );
        next = Some(start + blocks);
    }
}

#[test]
fn files_that_grow_concurrently_have_few_pieces() {
    for arguments in [
        "-t ext4 -b 4096 -O ^has_journal",
        "-t ext4 -b 1024 -O ^has_journal,bigalloc",
    ] {
        let Some(writable) = Writable::make(arguments, "256M") else {
            return;
        };
        let fs = &writable.fs;
        let piece = (64 << 10) >> fs.superblock().block_size_log2;
        let root = fs.inode(Ino::ROOT).unwrap();
        let mut files: Vec<(Goal, Vec<u64>)> = (0..8)
            .map(|file| {
                let goal = Goal {
                    near: fs.home_goal(&root),
                    ino: Ino(20 + file),
                    ..Goal::default()
                };
                (goal, Vec::new())
            })
            .collect();
        for _ in 0..64 {
            for (goal, pieces) in &mut files {
                for (start, blocks) in append(fs, *goal, piece) {
                    if goal.file_blocks == 0 || start != goal.near.0 {
                        pieces.push(start);
                    }
                    goal.near = FsBlock(start + blocks);
                    goal.file_blocks += blocks;
                    goal.is_stream = goal.file_blocks > 256;
                }
            }
        }
        for (goal, pieces) in &files {
            // Each piece is about as long as all earlier pieces together.
            assert!(pieces.len() <= 8, "{arguments}: {goal:?}: {pieces:?}");
        }
    }
}

#[test]
fn preallocated_space_is_released_on_a_full_image() {
    let Some(writable) = Writable::make("-t ext4 -b 1024 -O ^has_journal", "8M") else {
        return;
    };
    let fs = &writable.fs;
    let goal = Goal {
        near: FsBlock(4000),
        ino: Ino(20),
        file_blocks: 1000,
        ..Goal::default()
    };
    let first = fs.claim(goal, 10, None).unwrap();
    let available = fs.statfs().available_blocks;
    let mut rest = Vec::new();
    while let Ok(claim) = fs.claim(Goal::default(), 1 << 15, None) {
        rest.push(claim);
    }
    let claimed: u64 = rest.iter().map(|claim| u64::from(claim.blocks())).sum();
    assert_eq!(claimed, available);
    drop(first);
}

fn new_directory(fs: &Filesystem, parent: &Inode) -> Inode {
    let new = new_inode(FileKind::Directory, 0o755, Timestamp::default());
    let mut handle = fs.start(50).unwrap();
    let inode = fs.create_inode(&mut handle, parent, &new).unwrap();
    handle.stop();
    inode
}

#[test]
fn top_level_directories_spread_and_others_stay_with_their_parent() {
    let arguments = "-t ext4 -b 1024 -g 2048 -G 4 -O ^has_journal";
    let Some(writable) = Writable::make(arguments, "64M") else {
        return;
    };
    let fs = &writable.fs;
    let sb = fs.superblock();
    let flex = |inode: &Inode| (inode.ino().0 - 1) / sb.inodes_per_group / 4;
    let root = fs.inode(Ino::ROOT).unwrap();
    let top: Vec<Inode> = (0..8).map(|_| new_directory(fs, &root)).collect();
    let places: BTreeSet<u32> = top.iter().map(flex).collect();
    // The first flexible group contains the root and lost+found.
    assert_eq!(places.len(), 7.min(top.len()), "{places:?}");
    for parent in &top {
        for _ in 0..5 {
            assert_eq!(flex(&new_directory(fs, parent)), flex(parent));
        }
        let mut handle = fs.start(8).unwrap();
        let file = fs.allocate_inode(&mut handle, parent, false).unwrap();
        handle.stop();
        assert_eq!((file.0 - 1) / sb.inodes_per_group / 4, flex(parent));
    }
}

/// Sets all bits in the parts of the inode tables that were never used.
fn spoil_unused_tables(bytes: &mut [u8], fs: &Filesystem) {
    let sb = fs.superblock();
    for group in (0..sb.groups_count).map(larder_ext4::GroupNo) {
        let desc = fs.group(group).unwrap();
        let inode_bytes = u64::from(sb.inode_size_bytes);
        let used = u64::from(sb.inodes_per_group - desc.unused_inodes);
        let start = desc.inode_table.0 << sb.block_size_log2;
        let end = start + u64::from(sb.inodes_per_group) * inode_bytes;
        // The last block with used inodes keeps what mke2fs wrote to it.
        let first = (start + used * inode_bytes).next_multiple_of(u64::from(sb.block_size_bytes()));
        let range = usize::try_from(first).unwrap()..usize::try_from(end).unwrap();
        bytes[range].fill(0xFF);
    }
}

#[test]
fn inode_tables_that_were_never_zeroed_are_zeroed_on_use() {
    for arguments in [
        "-t ext4 -b 1024 -g 2048 -N 2000 -E lazy_itable_init=1 -O ^has_journal",
        "-t ext4 -b 4096 -N 300 -E lazy_itable_init=1 -O ^has_journal,^metadata_csum,uninit_bg",
    ] {
        let Some(image) = image::Image::make(arguments, "16M") else {
            return;
        };
        let mut bytes = image.bytes();
        spoil_unused_tables(&mut bytes, &image.open().0);
        let writable = Writable::open(bytes, arguments.to_owned());
        let fs = &writable.fs;
        let mut root = fs.inode(Ino::ROOT).unwrap();
        for file in 0..100 {
            let new = new_inode(FileKind::Regular, 0o644, Timestamp::default());
            let mut handle = fs.start(60).unwrap();
            let inode = fs.create_inode(&mut handle, &root, &new).unwrap();
            let name = format!("file-{file}");
            let target = (inode.ino(), FileTypeByte::of(FileKind::Regular));
            fs.add_entry(&mut handle, &mut root, name.as_bytes(), target)
                .unwrap();
            fs.write_inode(&mut handle, &root).unwrap();
            handle.stop();
        }
        fs.close().unwrap();
        writable.assert_clean();
    }
}

#[test]
fn claims_of_many_threads_never_overlap() {
    let Some(writable) = Writable::make("-t ext4 -b 1024 -g 1024 -O ^has_journal", "16M") else {
        return;
    };
    let before = writable.free_by_dumpe2fs();
    let writable = Arc::new(writable);
    let start = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let (writable, start) = (Arc::clone(&writable), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                let mut used = Vec::new();
                let goal = Goal {
                    near: FsBlock(3000),
                    ino: Ino(20 + thread),
                    ..Goal::default()
                };
                for round in 0..100 {
                    let Ok(claim) = writable.fs.claim(goal, 1 + round % 40, None) else {
                        continue;
                    };
                    if round % 3 > 0 {
                        used.push((claim.start(), claim.blocks()));
                        take(&writable.fs, claim);
                    }
                }
                used
            })
        })
        .collect();
    let used: Vec<_> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    let mut blocks = BTreeSet::new();
    for &(start, len) in &used {
        assert!((start.0..start.0 + u64::from(len)).all(|block| blocks.insert(block)));
    }
    for (start, len) in used {
        let mut handle = writable.fs.start(8).unwrap();
        writable
            .fs
            .free_blocks(&mut handle, start, len, Ino(12))
            .unwrap();
        handle.stop();
    }
    writable.fs.close().unwrap();
    assert!(writable.free_by_dumpe2fs() == before);
    writable.assert_clean();
}
