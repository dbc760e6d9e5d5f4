//! Mappings with empty nodes, in more groups than a handle has credits for.

mod image;
mod writable;

use image::new_inode;
use larder_ext4::ondisk::extent::{Extent, Index, encode_node};
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{FileKind, Filesystem, FsBlock, Goal, Handle, Ino, Inode};
use writable::Writable;

const SIZE: &str = "16M";

/// Allocates one block in each group.
fn block_in_each_group(fs: &Filesystem, handle: &mut Handle<'_>) -> Vec<FsBlock> {
    let groups = 0..fs.superblock().groups_count;
    let blocks = groups.map(|group| {
        let near = fs
            .superblock()
            .group_first_block(larder_ext4::GroupNo(group));
        let goal = Goal {
            near,
            ..Goal::default()
        };
        let claim = fs.claim(goal, 1, None).unwrap();
        let block = claim.start();
        fs.take(handle, claim).unwrap();
        block
    });
    blocks.collect()
}

fn new_file(fs: &Filesystem, handle: &mut Handle<'_>) -> Inode {
    let root = fs.inode(Ino::ROOT).unwrap();
    let new = new_inode(
        FileKind::Regular,
        0o644,
        Timestamp {
            seconds: 2_000_000_000,
            nanoseconds: 0,
        },
    );
    fs.create_inode(handle, &root, &new).unwrap()
}

/// Unmaps everything in handles with the minimum of credits. Returns the number of handles.
fn unmap_all(fs: &Filesystem, mut inode: Inode) -> u32 {
    let mut left = 0..1 << 32;
    let mut handles = 0;
    while !left.is_empty() {
        let mut handle = fs.start(fs.map_credits(&inode, 1)).unwrap();
        let before = left.clone();
        left = fs.unmap(&mut handle, &mut inode, left).unwrap();
        assert_ne!(left, before);
        fs.write_inode(&mut handle, &inode).unwrap();
        handle.stop();
        handles += 1;
    }
    assert_eq!(
        inode.i_block()[12..].iter().position(|byte| *byte != 0),
        None
    );
    handles
}

/// Deletes the file, which has no name. Afterwards, the image must be clean.
fn delete(writable: &Writable, ino: Ino) {
    let fs = &writable.fs;
    let mut inode = fs.inode(ino).unwrap();
    let handles = unmap_all(fs, inode);
    assert!(handles > 2, "{}: {handles} handles", writable.made_by());
    inode = fs.inode(ino).unwrap();
    let mut handle = fs.start(8).unwrap();
    let now = inode.mtime();
    fs.delete_inode(&mut handle, &mut inode, now).unwrap();
    handle.stop();
    fs.close().unwrap();
    writable.assert_clean();
}

#[test]
fn empty_leaves_in_many_groups_are_removed_in_several_handles() {
    let layout = "-t ext4 -b 1024 -g 256 -O ^metadata_csum,^has_journal,^64bit";
    let Some(writable) = Writable::make(layout, SIZE) else {
        return;
    };
    let fs = &writable.fs;
    let mut handle = fs.start(1000).unwrap();
    let mut inode = new_file(fs, &mut handle);
    let mut blocks = block_in_each_group(fs, &mut handle);
    let index = blocks.pop().unwrap();
    for &leaf in &blocks {
        let fill = |bytes: &mut [u8]| {
            encode_node::<Extent>(bytes, 0, &[], None);
            Ok(())
        };
        handle.create(leaf, inode.ino(), fill).unwrap();
    }
    let entries: Vec<Index> = (0..)
        .zip(&blocks)
        .map(|(at, &block)| Index {
            start: at * 10,
            block,
        })
        .collect();
    assert!(entries.len() > 60);
    let fill = |bytes: &mut [u8]| {
        encode_node(bytes, 1, &entries, None);
        Ok(())
    };
    handle.create(index, inode.ino(), fill).unwrap();
    let mut root = *inode.i_block();
    let top = Index {
        start: 0,
        block: index,
    };
    encode_node(&mut root, 2, &[top], None);
    inode.set_i_block(&root);
    inode.add_blocks(i64::try_from(blocks.len()).unwrap() + 1, 1024, false);
    fs.write_inode(&mut handle, &inode).unwrap();
    handle.stop();
    delete(&writable, inode.ino());
}

#[test]
fn blocks_of_zeros_in_many_groups_are_removed_in_several_handles() {
    let Some(writable) = Writable::make("-t ext2 -b 1024 -g 256", SIZE) else {
        return;
    };
    let fs = &writable.fs;
    let mut handle = fs.start(1000).unwrap();
    let mut inode = new_file(fs, &mut handle);
    assert!(!inode.flags().contains(InodeFlags::EXTENTS));
    let mut blocks = block_in_each_group(fs, &mut handle);
    let top = blocks.pop().unwrap();
    for &block in &blocks {
        handle.create(block, inode.ino(), |_| Ok(())).unwrap();
    }
    let fill = |bytes: &mut [u8]| {
        for (place, block) in bytes.chunks_mut(4).zip(&blocks) {
            place.copy_from_slice(&u32::try_from(block.0).unwrap().to_le_bytes());
        }
        Ok(())
    };
    handle.create(top, inode.ino(), fill).unwrap();
    let mut numbers = *inode.i_block();
    // The slot of the double indirect block.
    numbers[52..56].copy_from_slice(&u32::try_from(top.0).unwrap().to_le_bytes());
    inode.set_i_block(&numbers);
    inode.add_blocks(i64::try_from(blocks.len()).unwrap() + 1, 1024, false);
    fs.write_inode(&mut handle, &inode).unwrap();
    handle.stop();
    delete(&writable, inode.ino());
}
