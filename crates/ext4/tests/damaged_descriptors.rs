//! Descriptors with wrong data about inodes, and counts that are too large to be valid.

mod image;
mod writable;

use image::Image;
use larder_ext4::ondisk::group::{DescriptorPlace, GroupDesc, GroupFlags};
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Error, Filesystem, FsBlock, Goal, GroupNo, Ino, Inode};
use writable::Writable;

const LAYOUT: &str = "-t ext4 -b 1024 -g 1024 -O ^has_journal,^flex_bg,64bit,metadata_csum";

/// Returns an image on which `change` changed the descriptor of a group, and the root of that
/// image. The descriptor has a correct checksum.
fn with_descriptor(
    group: u32,
    change: impl FnOnce(&Superblock, &mut GroupDesc),
) -> Option<(Writable, Inode)> {
    let group = GroupNo(group);
    let image = Image::make(LAYOUT, "8M")?;
    let mut bytes = image.bytes();
    let (fs, _) = image.open();
    let sb = fs.superblock();
    let place = DescriptorPlace::of(sb, group);
    let start = usize::try_from(place.block.0 << sb.block_size_log2).unwrap() + place.offset_bytes;
    let mut desc = fs.group(group).unwrap();
    change(sb, &mut desc);
    desc.write(sb, group, &mut bytes[start..]).unwrap();
    let root = fs.inode(Ino::ROOT).unwrap();
    Some((Writable::open(bytes, LAYOUT.to_owned()), root))
}

fn allocate(fs: &Filesystem, parent: &Inode, is_directory: bool) -> Ino {
    let mut handle = fs.start(8).unwrap();
    let ino = fs.allocate_inode(&mut handle, parent, is_directory);
    handle.stop();
    ino.unwrap()
}

/// Returns the bytes of the inode table's blocks up to the one with the inode of lost+found.
fn inodes_in_use(fs: &Filesystem) -> Vec<u8> {
    let sb = fs.superblock();
    let table = fs.group(GroupNo(0)).unwrap().inode_table;
    let bytes = 11 * u64::from(sb.inode_size_bytes);
    let blocks = bytes.div_ceil(u64::from(sb.block_size_bytes()));
    let blocks = (0..blocks).map(|block| FsBlock(table.0 + block));
    blocks
        .flat_map(|block| {
            fs.metadata_block(block, Ino(0), |_| Ok(()))
                .unwrap()
                .to_vec()
        })
        .collect()
}

#[test]
fn used_inodes_counted_as_unused_are_not_overwritten() {
    type Change = fn(&Superblock, &mut GroupDesc);
    let table: [(&str, Change); 3] = [
        ("all unused", |sb, desc| {
            desc.unused_inodes = sb.inodes_per_group;
        }),
        ("all but a few unused", |sb, desc| {
            desc.unused_inodes = sb.inodes_per_group - 3;
        }),
        ("no bitmap", |_, desc| {
            desc.flags.insert(GroupFlags::INODE_UNINIT);
        }),
    ];
    for (what, change) in table {
        let Some((writable, root)) = with_descriptor(0, change) else {
            return;
        };
        let fs = &writable.fs;
        let before = inodes_in_use(fs);
        for number in 0..20 {
            let ino = allocate(fs, &root, number % 2 == 0);
            assert!(ino.0 > fs.superblock().inodes_per_group, "{what}: {ino}");
        }
        assert!(inodes_in_use(fs) == before, "{what}");
    }
}

#[test]
fn group_with_an_overflowing_inode_count_is_skipped_and_others_are_used() {
    let Some((writable, root)) = with_descriptor(0, |_, desc| desc.used_directories = u32::MAX)
    else {
        return;
    };
    let per_group = writable.fs.superblock().inodes_per_group;
    assert!(allocate(&writable.fs, &root, false).0 < per_group);
    for _ in 0..2 * per_group {
        let ino = allocate(&writable.fs, &root, true);
        assert!(ino.0 > per_group, "{ino}");
    }

    let Some((writable, _)) = with_descriptor(0, |_, desc| desc.free_inodes = u32::MAX) else {
        return;
    };
    let mut handle = writable.fs.start(8).unwrap();
    let freed = writable.fs.free_inode(&mut handle, Ino(11), true);
    assert!(matches!(freed, Err(Error::Corrupt(_))), "{freed:?}");
}

#[test]
fn free_count_above_the_maximum_counts_as_all_blocks() {
    let Some(image) = Image::make("-t ext4 -b 1024 -O ^has_journal,^metadata_csum,64bit", "8M")
    else {
        return;
    };
    let mut bytes = image.bytes();
    for at in [0x0C, 0x158] {
        bytes[1024 + at..1024 + at + 4].fill(0xFF);
    }
    let writable = Writable::open(bytes, image.made_by().to_owned());
    let fs = &writable.fs;
    let claim = fs.claim(Goal::default(), 8, None).unwrap();
    let start = claim.start();
    let mut handle = fs.start(8).unwrap();
    fs.take(&mut handle, claim).unwrap();
    handle.stop();
    let mut handle = fs.start(8).unwrap();
    fs.free_blocks(&mut handle, start, 8, Ino(12)).unwrap();
    handle.stop();
    let free = fs.free_counts().unwrap().0;
    assert!(free <= fs.superblock().blocks_count, "{free}");
}
