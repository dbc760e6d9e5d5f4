//! Changes of mappings, checked with a model, e2fsck and debugfs.

mod image;
mod mapping;

use image::Image;
use larder_testkit::seed::{Random, Seed};
use mapping::Subject;
use rustix::fs::{self as sys, FallocateFlags};
use std::os::unix::fs::FileExt;

/// The arguments of mke2fs, the size, and the number of file blocks at which changes can start.
const LAYOUTS: [(&str, &str, u64); 9] = [
    ("-t ext4 -b 1024", "96M", 60_000),
    (
        "-t ext4 -b 1024 -O ^metadata_csum,^64bit -I 128",
        "96M",
        60_000,
    ),
    ("-t ext4 -b 4096", "128M", 20_000),
    ("-t ext4 -b 65536", "256M", 3_000),
    ("-t ext4 -b 1024 -O bigalloc -C 8192", "96M", 60_000),
    ("-t ext4 -b 4096 -O bigalloc -C 65536", "256M", 40_000),
    ("-t ext4 -b 2048 -O ^has_journal", "96M", 30_000),
    ("-t ext3 -b 1024", "96M", 70_000),
    ("-t ext2 -b 4096", "96M", 20_000),
];

/// Makes one random change. Single blocks are common, which causes many splits and merges.
fn step(subject: &mut Subject, span: u64) {
    let at = subject.random.below(span);
    let blocks = match subject.random.below(10) {
        0 => 1 + subject.random.below(span / 4),
        1..4 => 1 + subject.random.below(40),
        _ => 1,
    };
    let is_written = !subject.has_extents() || subject.random.below(3) > 0;
    match subject.random.below(105) {
        0..70 if subject.insert(at, blocks, is_written) => {}
        // There was no space for the insertion.
        0..70 => subject.unmap(at..at + span / 4),
        70..82 => subject.unmap(at..at + blocks),
        82..87 => {
            let credits = u32::try_from(subject.random.below(25)).expect("small");
            if at.is_multiple_of(2) {
                subject.unmap_with_few_credits(at..at + blocks, credits);
            } else {
                subject.insert_with_few_credits(at, credits);
            }
        }
        87..102 => subject.set_written(at..at + blocks, is_written),
        _ if subject.has_extents() => {
            let cluster = subject.cluster();
            let (at, by) = (at & !(cluster - 1), cluster * (1 + blocks % 20));
            let is_back = subject.random.below(2) == 0;
            subject.shift(at, by, is_back);
        }
        _ => {}
    }
}

#[test]
fn mapping_after_random_changes_matches_model_and_passes_e2fsck() {
    let seed = Seed::from_environment(0x6d61_7020);
    println!("seed {seed}");
    for (number, (arguments, size, span)) in (0..).zip(LAYOUTS) {
        let random = Random::new(seed.part(number));
        let Some(mut subject) = Subject::new(arguments, size, random) else {
            return;
        };
        for round in 0..3000 {
            step(&mut subject, span);
            if round % 300 == 0 {
                subject.check(0..span * 2);
                subject
                    .fs
                    .commit(subject.fs.running_tid().expect("writable"))
                    .expect("commit");
            }
        }
        subject.check(0..span * 2);
        let mut subject = subject.finish(arguments);
        subject.unmap(0..1 << 32);
        drop(subject.finish(arguments));
    }
}

/// Writes content, unwritten space and holes through the kernel.
fn fragment(path: &std::path::Path, block_bytes: u64, random: &mut Random) {
    let file = std::fs::File::create(path).expect("file");
    let content = vec![7; 100_000];
    for _ in 0..400 {
        let offset = random.below(40_000_000);
        let len = usize::try_from(1 + random.below(100_000)).expect("small");
        match random.below(4) {
            0 => {
                // Fails without extents.
                let _ = sys::fallocate(&file, FallocateFlags::empty(), offset, len as u64);
            }
            1 => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = sys::fallocate(&file, punch, offset, len as u64);
            }
            _ => file.write_all_at(&content[..len], offset).expect("write"),
        }
        if random.below(4) == 0 {
            file.sync_data().expect("sync");
        }
    }
    for block in (0..8000).step_by(2) {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = sys::fallocate(&file, punch, block * block_bytes, block_bytes);
    }
}

#[test]
fn mapping_made_by_the_kernel_changes_as_its_model() {
    let seed = Seed::from_environment(0x6d61_7022);
    println!("seed {seed}");
    let layouts = [
        "-t ext4 -b 1024",
        "-t ext4 -b 4096",
        "-t ext4 -b 4096 -O bigalloc -C 16384",
        "-t ext3 -b 1024",
        "-t ext2 -b 2048",
    ];
    for (number, arguments) in (0..).zip(layouts) {
        let mut random = Random::new(seed.part(number));
        let Some(image) = Image::make(arguments, "96M") else {
            return;
        };
        let block_bytes = u64::from(image.open().0.superblock().block_size_bytes());
        match image.mount("rw") {
            Some(mount) => fragment(&mount.path().join("file"), block_bytes, &mut random),
            None => return,
        }
        let mut subject = Subject::open(image, random);
        assert!(subject.model.len() > 1000, "{arguments}");
        let span = 40_000_000 / block_bytes;
        for _ in 0..1000 {
            step(&mut subject, span);
        }
        subject.check(0..span * 2);
        let mut subject = subject.finish(arguments);
        subject.unmap(0..1 << 32);
        drop(subject.finish(arguments));
    }
}

#[test]
fn maximum_file_size_equals_the_kernels() {
    let layouts = [
        "-t ext4 -b 4096",
        "-t ext4 -b 1024",
        "-t ext4 -b 4096 -O ^huge_file",
        "-t ext3 -b 1024",
        "-t ext3 -b 2048",
        "-t ext2 -b 4096",
        "-t ext2 -b 4096 -O huge_file",
    ];
    for arguments in layouts {
        let Some(subject) = Subject::new(arguments, "16M", Random::new(Seed(5))) else {
            return;
        };
        let max_bytes = subject.fs.max_file_bytes(&subject.inode);
        let subject = subject.finish(arguments);
        subject.fs.close().expect("closed");
        let Some(mount) = subject.image.mount("rw") else {
            return;
        };
        let file = std::fs::File::options()
            .write(true)
            .open(mount.path().join("file"));
        let file = file.expect("file");
        file.set_len(max_bytes).expect(arguments);
        assert!(file.set_len(max_bytes + 1).is_err(), "{arguments}");
    }
}

#[test]
fn tree_of_single_blocks_grows_three_levels_and_shrinks_back() {
    let seed = Seed(1);
    let Some(mut subject) = Subject::new("-t ext4 -b 1024 -J size=4", "96M", Random::new(seed))
    else {
        return;
    };
    // From the end to the start, so that nodes are split in the middle and keys change.
    for at in (0..18_000_u64).rev() {
        assert!(subject.insert(at * 2, 1, true));
    }
    assert_eq!(subject.inode.i_block()[6], 3, "levels");
    subject.check(0..36_000);
    let mut subject = subject.finish("grown");
    subject.unmap(3..1 << 32);
    assert_eq!(subject.inode.i_block()[6], 0, "levels");
    drop(subject.finish("shrunk"));
}

#[test]
fn file_written_from_end_to_end_fills_its_nodes() {
    let Some(mut subject) = Subject::new("-t ext4 -b 1024", "96M", Random::new(Seed(2))) else {
        return;
    };
    for at in 0..840_u64 {
        assert!(subject.insert(at * 2, 1, true));
    }
    // Ten leaves of 84 entries, and their parent node.
    let blocks_512 = subject.inode.blocks_512(1024);
    assert_eq!(blocks_512, 2 * (840 + 10 + 1));
    drop(subject.finish("filled"));
}

#[test]
fn indirect_blocks_to_the_third_level_are_added_and_removed() {
    let Some(mut subject) = Subject::new("-t ext3 -b 1024", "96M", Random::new(Seed(3))) else {
        return;
    };
    let ends = [
        0, 11, 12, 267, 268, 65_803, 65_804, 131_339, 131_340, 16_843_019,
    ];
    for at in ends {
        assert!(subject.insert(at, 1, true));
    }
    assert!(subject.insert(65_000, 803, true));
    for at in ends {
        subject.check(at..at + 1);
    }
    subject.check(64_000..67_000);
    let mut subject = subject.finish("ends of levels");
    subject.unmap(12..1 << 32);
    assert_eq!(subject.inode.blocks_512(1024), 4);
    drop(subject.finish("cut"));
}
