//! Damaged superblocks and damaged backups: whatever their contents, an opened file system is
//! consistent.

mod image;

use image::Image;
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Error, GroupNo};
use larder_testkit::seed::{Random, Seed};
use std::ops::Range;

const ROUNDS: usize = 3000;

const FIRST: Range<usize> = 1024..2048;
/// The backup in a file system with groups of 8,192 blocks of 1 KiB.
const BACKUP: Range<usize> = 8193 * 1024..8194 * 1024;

/// Changes some bytes of the two superblocks on `device`. If `first_is_lost`, also clears the magic
/// number of the first superblock.
fn damage(device: &MemoryDevice, random: &mut Random, first_is_lost: bool) {
    for place in [FIRST, BACKUP] {
        for _ in 0..random.below(6) {
            let at = place.start as u64 + random.below(0x120);
            let byte = [0, 1, 0xFF, 0x10][usize::try_from(random.below(4)).unwrap()];
            device.write_at(&[byte], at).unwrap();
        }
    }
    if first_is_lost {
        device.write_at(&[0; 2], FIRST.start as u64 + 0x38).unwrap();
    }
}

#[test]
fn superblock_restored_from_damaged_ones_is_consistent() {
    let Some(image) = Image::make("-t ext4 -b 1024 -O ^metadata_csum", "24M") else {
        return;
    };
    let seed = Seed::from_environment(0x5b);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let whole = image.bytes();
    // One device serves all rounds: a round damages only the two superblocks, and the next round
    // restores them.
    let device = MemoryDevice::new(whole.clone());
    let mut restored = 0;
    for round in 0..ROUNDS {
        for place in [FIRST, BACKUP] {
            let bytes = &whole[place.clone()];
            device.write_at(bytes, place.start as u64).unwrap();
        }
        damage(&device, &mut random, round % 2 == 0);
        let Ok((sb, repair)) = Superblock::read_or_restore(&device) else {
            continue;
        };
        restored += usize::from(repair.is_some());
        let last = GroupNo(sb.groups_count - 1);
        assert!(sb.group_first_block(last).0 < sb.blocks_count);
        assert!(sb.inode_table_blocks() <= sb.blocks_per_group);
    }
    assert!(restored > ROUNDS / 20, "{restored} restored");
}

#[test]
fn superblock_of_a_nested_file_system_is_not_used() {
    let Some(image) = Image::make("-t ext4 -b 1024", "24M") else {
        return;
    };
    let mut bytes = image.bytes();
    // An image within an image: its first superblock is in the place of a backup.
    let first = bytes[FIRST].to_vec();
    bytes[BACKUP].copy_from_slice(&first);
    for group in [3, 5, 7, 9] {
        let at = (1 + group * 8192) * 1024;
        if let Some(backup) = bytes.get_mut(at..at + 1024) {
            backup.fill(0);
        }
    }
    bytes[FIRST].fill(0);
    let error = Superblock::read_or_restore(&MemoryDevice::new(bytes)).unwrap_err();
    assert!(matches!(error, Error::NotExt), "{error}");
}
