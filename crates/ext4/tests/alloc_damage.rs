//! Groups with damaged metadata: their blocks are not allocated, and nothing panics.

mod image;
mod writable;

use image::Image;
use larder_block::{BlockDevice, Error as DeviceError, MemoryDevice};
use larder_ext4::{
    Error, FileBlock, Filesystem, FsBlock, Goal, GroupNo, Ino, MappingKind, WriteOptions,
};
use larder_testkit::{Random, Seed};
use parking_lot::Mutex;
use std::sync::Arc;
use writable::Writable;

const PLAIN: &str = "-t ext4 -b 1024 -g 1024 -O ^has_journal,^metadata_csum,^uninit_bg";
const CHECKED: &str = "-t ext4 -b 1024 -g 1024 -O ^has_journal";

/// Claims all free space and returns the groups of the claims.
fn groups_claimed(fs: &Filesystem) -> Vec<u32> {
    let goal = Goal {
        may_use_reserved: true,
        ..Goal::default()
    };
    let mut claims = Vec::new();
    while let Ok(claim) = fs.claim(goal, 1 << 15, None) {
        claims.push(claim);
    }
    let sb = fs.superblock();
    let group = |block: FsBlock| {
        (block.0 - u64::from(sb.first_data_block)) / u64::from(sb.blocks_per_group)
    };
    let mut groups: Vec<u32> = claims
        .iter()
        .map(|claim| u32::try_from(group(claim.start())).unwrap())
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Opens an image that `damage` changed. `damage` gets the byte offsets of a group's block bitmap,
/// inode table and descriptor.
fn damaged(
    arguments: &str,
    group: u32,
    damage: impl FnOnce(&mut [u8], [usize; 3]),
) -> Option<Writable> {
    let image = Image::make(arguments, "8M")?;
    let mut bytes = image.bytes();
    let (fs, _) = image.open();
    let sb = fs.superblock();
    let desc = fs.group(GroupNo(group)).unwrap();
    let place = larder_ext4::ondisk::group::DescriptorPlace::of(sb, GroupNo(group));
    let offset = |block: FsBlock| usize::try_from(block.0 << sb.block_size_log2).unwrap();
    let offsets = [
        offset(desc.block_bitmap),
        offset(desc.inode_table),
        offset(place.block) + place.offset_bytes,
    ];
    damage(&mut bytes, offsets);
    Some(Writable::open(bytes, arguments.to_owned()))
}

#[test]
fn group_with_a_damaged_bitmap_is_skipped_and_others_are_used() {
    type Damage = fn(&mut [u8], [usize; 3]);
    let table: &[(&str, &str, Damage)] = &[
        ("superblock or table free", PLAIN, |bytes, [bitmap, ..]| {
            bytes[bitmap..bitmap + 128].fill(0);
        }),
        ("free count differs", PLAIN, |bytes, [_, _, desc]| {
            bytes[desc + 12] ^= 1;
        }),
        ("bitmap is the table", PLAIN, |bytes, [_, table, desc]| {
            let block = u32::try_from(table / 1024).unwrap() + 1;
            bytes[desc..desc + 4].copy_from_slice(&block.to_le_bytes());
        }),
        ("bitmap outside", PLAIN, |bytes, [_, _, desc]| {
            bytes[desc..desc + 4].copy_from_slice(&0x00FF_FFFF_u32.to_le_bytes());
        }),
        (
            "checksum of the descriptor",
            CHECKED,
            |bytes, [_, _, desc]| {
                bytes[desc + 0x1E] ^= 1;
            },
        ),
    ];
    for (what, arguments, damage) in table {
        // Without flexible groups, the damage affects one group only.
        let arguments = format!("{arguments},^flex_bg");
        let Some(writable) = damaged(&arguments, 3, damage) else {
            return;
        };
        let groups = groups_claimed(&writable.fs);
        assert!(!groups.contains(&3), "{what}: {groups:?}");
        assert!(groups.len() >= 6, "{what}: {groups:?}");
    }
}

#[test]
fn bitmap_with_a_wrong_checksum_is_refused() {
    let Some(writable) = damaged(CHECKED, 0, |bytes, [bitmap, ..]| {
        // Flips two bits: that of a used block, and that of a free block, so that the free count is
        // still right.
        bytes[bitmap + 127] ^= 0x41;
    }) else {
        return;
    };
    let fs = &writable.fs;
    assert!(!groups_claimed(fs).contains(&0));
    let mut handle = fs.start(8).unwrap();
    let freed = fs.free_blocks(&mut handle, FsBlock(900), 1, Ino(12));
    assert!(matches!(freed, Err(Error::Corrupt(_))));
    let parent = fs.inode(Ino::ROOT).unwrap();
    let ino = fs.allocate_inode(&mut handle, &parent, false).unwrap();
    assert!(ino.0 > fs.superblock().inodes_per_group);
}

#[test]
fn freeing_blocks_that_no_file_has_fails_and_changes_nothing() {
    let Some(writable) = Writable::make("-t ext4 -b 1024 -g 1024", "16M") else {
        return;
    };
    let fs = &writable.fs;
    let before = writable.free_by_dumpe2fs();
    let claim = fs
        .claim(
            Goal {
                near: FsBlock(5000),
                ..Goal::default()
            },
            8,
            None,
        )
        .unwrap();
    let own = claim.start();
    let desc = fs.group(GroupNo(0)).unwrap();
    let mut handle = fs.start(20).unwrap();
    fs.take(&mut handle, claim).unwrap();
    let tid = handle.stop();
    fs.commit(tid).unwrap();
    let outside = FsBlock(fs.superblock().blocks_count);
    let inode = fs.inode(fs.superblock().journal_ino).unwrap();
    let mapping = fs.map(&inode, FileBlock(5), 1).unwrap();
    let MappingKind::Written(journal) = mapping.kind else {
        panic!("{mapping:?}");
    };
    for (what, start, blocks) in [
        ("free", FsBlock(own.0 + 8), 1),
        ("partly free", own, 9),
        ("superblock", FsBlock(1), 1),
        ("descriptors", FsBlock(2), 1),
        ("bitmap", desc.block_bitmap, 1),
        ("inode bitmap", desc.inode_bitmap, 1),
        ("inode table", FsBlock(desc.inode_table.0 + 2), 1),
        ("journal", journal, 1),
        ("outside", outside, 1),
        ("partly outside", FsBlock(outside.0 - 1), 2),
        ("far outside", FsBlock(u64::MAX), u32::MAX),
        ("none", own, 0),
    ] {
        let mut handle = fs.start(20).unwrap();
        fs.free_blocks(&mut handle, own, 2, Ino(12)).unwrap();
        let freed = fs.free_blocks(&mut handle, start, blocks, Ino(12));
        assert!(matches!(freed, Err(Error::Corrupt(_))), "{what}: {freed:?}");
        drop(handle);
    }
    let mut handle = fs.start(20).unwrap();
    fs.free_blocks(&mut handle, own, 8, Ino(12)).unwrap();
    let again = fs.free_blocks(&mut handle, own, 8, Ino(12));
    assert!(again.unwrap_err().to_string().contains("already free"));
    drop(handle);
    for ino in [Ino(2), Ino(12), Ino(0), Ino(u32::MAX), Ino(1000)] {
        let mut handle = fs.start(8).unwrap();
        let freed = fs.free_inode(&mut handle, ino, false);
        assert!(matches!(freed, Err(Error::Corrupt(_))), "{ino}");
    }
    let mut handle = fs.start(20).unwrap();
    fs.free_blocks(&mut handle, own, 8, Ino(12)).unwrap();
    handle.stop();
    fs.close().unwrap();
    assert!(writable.free_by_dumpe2fs() == before);
    writable.assert_clean();
}

#[test]
fn randomly_damaged_metadata_does_not_panic() {
    let seed = Seed::from_environment(0xDA_3A6E);
    println!("seed {seed}");
    for arguments in [
        PLAIN,
        "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,bigalloc,^uninit_bg -C 4096",
    ] {
        let Some(image) = Image::make(arguments, "4M") else {
            return;
        };
        let whole = image.bytes();
        for round in 0..150 {
            let mut random = Random::new(seed.part(round));
            let mut bytes = whole.clone();
            for _ in 0..=random.below(8) {
                // The superblock, the descriptors and the bitmaps are near the start of the image.
                let end = if random.below(2) == 0 { 4096 } else { 64 << 10 };
                let at = 1024 + usize::try_from(random.below(end)).unwrap();
                bytes[at] = random.byte();
            }
            perform_operations(bytes, &mut random);
        }
    }
}

/// Performs various operations, which may fail.
fn perform_operations(bytes: Vec<u8>, random: &mut Random) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    let Ok(sb) = larder_ext4::ondisk::superblock::Superblock::read(&*device) else {
        return;
    };
    let mut fs = image::open_with(sb, &device);
    if fs.enable_writing(device, WriteOptions::default()).is_err() {
        return;
    }
    let _ = fs.statfs();
    let mut used = Vec::new();
    for _ in 0..30 {
        let near = FsBlock(random.below(5000));
        let goal = Goal {
            near,
            ino: Ino(20),
            file_blocks: random.below(20),
            ..Goal::default()
        };
        let claim = fs.claim(goal, 1 + u32::try_from(random.below(600)).unwrap(), None);
        let mut handle = fs.start(40).unwrap();
        if let Ok(claim) = claim {
            used.push((claim.start(), claim.blocks()));
            let _ = fs.take(&mut handle, claim);
        }
        if let Ok(root) = fs.inode(Ino::ROOT) {
            let _ = fs.allocate_inode(&mut handle, &root, random.below(2) == 0);
        }
        let _ = fs.free_inode(
            &mut handle,
            Ino(u32::try_from(random.below(3000)).unwrap()),
            false,
        );
        if random.below(2) == 0
            && let Some((start, blocks)) = used.pop()
        {
            let _ = fs.free_blocks(&mut handle, start, blocks, Ino(20));
        }
        if random.below(4) > 0 {
            handle.stop();
        }
    }
    let _ = fs.commit_freed(0);
    let _ = fs.statfs();
    let _ = fs.close();
}

/// A device in memory that records discards.
#[derive(Debug)]
struct DiscardRecorder {
    inner: MemoryDevice,
    discarded: Mutex<Vec<(u64, u64)>>,
}

impl BlockDevice for DiscardRecorder {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<(), DeviceError> {
        self.inner.read_at(buf, offset_bytes)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<(), DeviceError> {
        self.inner.write_at(buf, offset_bytes)
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool, DeviceError> {
        self.discarded.lock().push((offset_bytes, len_bytes));
        Ok(true)
    }
}

#[test]
fn trim_discards_only_free_blocks() {
    for arguments in [CHECKED, "-t ext4 -b 1024 -O ^has_journal,bigalloc -C 16384"] {
        let Some(writable) = Writable::make(arguments, "8M") else {
            return;
        };
        let (free, _) = writable.free_by_dumpe2fs();
        let device = Arc::new(DiscardRecorder {
            inner: MemoryDevice::new(writable.device.to_bytes()),
            discarded: Mutex::default(),
        });
        let shared: Arc<dyn BlockDevice> = device.clone();
        let mut fs = image::open(&shared);
        fs.enable_writing(shared, WriteOptions::default()).unwrap();
        let cluster_bytes = fs.superblock().cluster_size_bytes();
        let size = fs.superblock().size_bytes();

        let goal = Goal {
            near: FsBlock(4000),
            ..Goal::default()
        };
        let claim = fs.claim(goal, 16, None).unwrap();
        let kept = claim.start().0..claim.start().0 + 16;
        let mut handle = fs.start(8).unwrap();
        fs.take(&mut handle, claim).unwrap();
        handle.stop();
        let mut handle = fs.start(8).unwrap();
        fs.free_blocks(&mut handle, FsBlock(kept.start), 16, Ino(12))
            .unwrap();
        handle.stop();

        let bytes = fs.trim(0..u64::MAX, 0).unwrap();
        let mut discarded = std::collections::BTreeSet::new();
        for (offset, len) in device.discarded.lock().drain(..) {
            discarded
                .extend((offset..offset + len).step_by(usize::try_from(cluster_bytes).unwrap()));
        }
        let expected = free.iter().filter(|block| !kept.contains(block));
        let expected: std::collections::BTreeSet<u64> = expected.map(|block| block << 10).collect();
        assert!(discarded == expected, "{arguments}");
        assert_eq!(bytes, discarded.len() as u64 * cluster_bytes);

        assert_eq!(fs.trim(0..size, 1 << 40).unwrap(), 0);
        assert_eq!(fs.trim(size..size, 0).unwrap(), 0);
        device.discarded.lock().clear();
        let bytes = fs
            .trim(size / 2..size / 2 + 100 * cluster_bytes, 0)
            .unwrap();
        assert!(bytes > 0 && bytes <= 100 * cluster_bytes);
        for &(offset, len) in &*device.discarded.lock() {
            assert!(offset >= size / 2 && offset + len <= size / 2 + 100 * cluster_bytes);
        }
        assert!(matches!(
            writable.fs.trim(0..size, 0),
            Err(Error::DeviceCannot(_))
        ));
    }
}
