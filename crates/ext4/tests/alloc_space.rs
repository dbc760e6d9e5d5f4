//! Space that runs out, is reserved, or is discarded; and groups with wrong descriptors.

mod image;
mod writable;

use larder_block::{BlockDevice, CountingDevice, FileDevice, FileRange};
use larder_ext4::{Claim, Error, Filesystem, FsBlock, Goal, Ino, Privilege, WriteOptions};
use larder_testkit::e2fsprogs::make_image;
use std::sync::Arc;
use std::time::Instant;
use writable::Writable;

/// Claims all free space, in the largest possible claims.
fn claim_all(fs: &Filesystem, goal: Goal) -> Vec<Claim> {
    let mut claims = Vec::new();
    loop {
        match fs.claim(goal, 1 << 15, None) {
            Ok(claim) => claims.push(claim),
            Err(Error::NoSpace) => return claims,
            Err(error) => panic!("{error}"),
        }
    }
}

fn blocks(claims: &[Claim]) -> u64 {
    claims.iter().map(|claim| u64::from(claim.blocks())).sum()
}

#[test]
fn space_claimed_to_the_last_block_and_freed_is_unchanged() {
    for (arguments, size) in [
        ("-t ext4 -b 1024 -g 1024 -O ^has_journal", "8M"),
        ("-t ext2 -b 4096", "16M"),
        // Inode tables that extend into other groups.
        (
            "-t ext4 -b 1024 -g 1024 -G 16 -N 9000 -O ^has_journal",
            "16M",
        ),
        ("-t ext4 -b 4096 -O ^has_journal,bigalloc -C 65536", "64M"),
    ] {
        let Some(writable) = Writable::make(arguments, size) else {
            return;
        };
        let fs = &writable.fs;
        let before = writable.free_by_dumpe2fs();
        let all = fs.statfs();
        let ordinary = claim_all(fs, Goal::default());
        assert_eq!(blocks(&ordinary), all.available_blocks, "{arguments}");
        let goal = Goal {
            may_use_reserved: true,
            ..Goal::default()
        };
        let reserved = claim_all(fs, goal);
        assert_eq!(fs.statfs().available_blocks, 0);
        let mut handle = fs.start(1000).unwrap();
        let mut metadata = Vec::new();
        while let Ok(block) = fs.allocate_block(&mut handle, FsBlock(0)) {
            metadata.push((block, 1));
        }
        let log2 = fs.superblock().cluster_blocks_log2;
        let metadata_blocks = (metadata.len() as u64) << log2;
        let sum = blocks(&ordinary) + blocks(&reserved) + metadata_blocks;
        // All the remaining space is for mappings.
        let for_mappings = all.free_blocks - sum;
        let fiftieth = fs.superblock().blocks_count / 50;
        let quarter = if arguments.contains("ext2") {
            0
        } else {
            fiftieth / 4
        };
        assert!(for_mappings <= quarter, "{arguments}: {for_mappings}");
        assert_eq!(for_mappings > 0, quarter >> log2 > 0, "{arguments}");
        assert_eq!(fs.statfs().free_blocks, for_mappings);
        let clusters = for_mappings >> log2;
        drop(
            fs.reserve_for_mapping(clusters, Privilege::Remapping)
                .unwrap(),
        );
        assert!(
            fs.reserve_for_mapping(clusters + 1, Privilege::Remapping)
                .is_err()
        );
        assert!(
            clusters == 0
                || fs
                    .reserve_for_mapping(clusters, Privilege::Ordinary)
                    .is_err()
        );
        let mut used = metadata;
        for claim in ordinary.into_iter().chain(reserved) {
            used.push((claim.start(), claim.blocks()));
            fs.take(&mut handle, claim).unwrap();
        }
        handle.stop();
        fs.commit(fs.running_tid().unwrap()).unwrap();
        assert!(writable.free_by_dumpe2fs() != before);

        let mut handle = fs.start(1000).unwrap();
        for (start, blocks) in used {
            fs.free_blocks(&mut handle, start, blocks, Ino(12)).unwrap();
        }
        handle.stop();
        let since = fs.releases();
        // Freed blocks are not available yet.
        let left = claim_all(fs, Goal::default());
        assert_eq!(blocks(&left), for_mappings, "{arguments}");
        assert!(fs.commit_freed(since).unwrap());
        assert!(fs.claim(Goal::default(), 1, None).is_ok());
        // A caller that was refused space before that commit must try again, although it calls
        // `commit_freed` only now.
        assert!(fs.commit_freed(since).unwrap());
        let since = fs.releases();
        assert!(!fs.commit_freed(since).unwrap());
        fs.close().unwrap();
        assert!(writable.free_by_dumpe2fs() == before);
        writable.assert_clean();
    }
}

#[test]
fn reserved_space_is_available_only_to_its_owner() {
    let Some(writable) = Writable::make("-t ext4 -b 1024 -O ^has_journal", "16M") else {
        return;
    };
    let fs = &writable.fs;
    let available = fs.statfs().available_blocks;
    let mut reservation = fs.reserve(100, Privilege::Ordinary).unwrap();
    assert_eq!(fs.statfs().available_blocks, available - 100);
    assert!(fs.reserve(available - 99, Privilege::Ordinary).is_err());
    let others = claim_all(fs, Goal::default());
    assert_eq!(blocks(&others), available - 100);
    assert!(matches!(
        fs.claim(Goal::default(), 1, None),
        Err(Error::NoSpace)
    ));

    let claim = fs
        .claim(Goal::default(), 60, Some(&mut reservation))
        .unwrap();
    assert_eq!(reservation.clusters(), 100 - u64::from(claim.blocks()));
    drop(claim);
    reservation.add(fs.reserve_again(100 - reservation.clusters()).unwrap());
    assert_eq!(reservation.clusters(), 100);
    let mut own = 0;
    while reservation.clusters() > 0 {
        let claim = fs
            .claim(Goal::default(), 1000, Some(&mut reservation))
            .unwrap();
        own += claim.blocks();
        let mut handle = fs.start(8).unwrap();
        fs.take(&mut handle, claim).unwrap();
        // The reservation includes space for metadata.
        fs.allocate_block(&mut handle, FsBlock(0)).unwrap();
        handle.stop();
    }
    assert_eq!(own, 100);

    let mut reservation = fs.reserve(10, Privilege::SuperUser).unwrap();
    let before = fs.statfs().free_blocks;
    reservation.keep(4);
    reservation.add(fs.reserve(3, Privilege::SuperUser).unwrap());
    assert_eq!(reservation.clusters(), 7);
    drop(reservation);
    assert_eq!(fs.statfs().free_blocks, before + 10);
}

#[test]
fn image_of_16_tib_is_opened_and_claimed_with_few_reads() {
    // The image is in memory if possible, because removing such a file from a file system on a disk
    // takes half a minute.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.unwrap();
    let path = dir.path().join("image");
    let arguments = "-t ext4 -b 4096 -O ^has_journal,^resize_inode,sparse_super2 \
                     -E lazy_itable_init=1,num_backup_sb=0,nodiscard -N 1000000";
    if make_image(&path, arguments, "16383G").is_err() {
        larder_testkit::report_skipped("no mke2fs, or no sparse file of 16 TiB");
        return;
    }
    let file = FileDevice::open_writable(&path, FileRange::default()).unwrap();
    let device = Arc::new(CountingDevice::new(Arc::new(file)));
    let shared: Arc<dyn BlockDevice> = device.clone();
    let start = Instant::now();
    let mut fs = image::open(&shared);
    fs.enable_writing(shared, WriteOptions::default()).unwrap();
    let opened = start.elapsed();
    assert!(fs.available_blocks() > fs.superblock().blocks_count / 10 * 9);
    let goal = Goal {
        near: FsBlock(fs.superblock().blocks_count / 2),
        ..Goal::default()
    };
    let claim = fs.claim(goal, 100, None).unwrap();
    let claimed = start.elapsed();
    let reservation = fs.reserve(1000, Privilege::Ordinary).unwrap();
    let mut handle = fs.start(8).unwrap();
    fs.take(&mut handle, claim).unwrap();
    let root = fs.inode(Ino::ROOT).unwrap();
    fs.allocate_inode(&mut handle, &root, false).unwrap();
    drop(handle);
    drop(reservation);
    println!("16 TiB: opened in {opened:?}, claimed after {claimed:?}");
    let reads = device.counts().reads;
    assert!(reads <= 20, "{reads} reads");

    // More groups than can have a map at the same time.
    let per_group = u64::from(fs.superblock().blocks_per_group);
    for round in 0..2 {
        for group in 0..6000 {
            let goal = Goal {
                near: FsBlock(group * per_group + 20_000),
                ..Goal::default()
            };
            let claim = fs.claim(goal, 1 + round, None).unwrap();
            assert_eq!(claim.start(), goal.near);
        }
    }
    let start = Instant::now();
    let free = fs.statfs().free_blocks;
    println!("16 TiB: counted in {:?}", start.elapsed());
    assert_eq!(free, fs.superblock().free_blocks_count);
}

#[test]
fn space_that_is_set_aside_is_available_only_to_accepted_content() {
    let Some(writable) = Writable::make("-t ext4 -b 1024 -O ^has_journal", "16M") else {
        return;
    };
    let fs = &writable.fs;
    let available = fs.statfs().available_blocks;
    fs.set_aside(300).unwrap();
    assert_eq!(fs.statfs().available_blocks, available - 300);
    assert!(fs.reserve(available - 299, Privilege::Ordinary).is_err());
    let others = claim_all(fs, Goal::default());
    assert_eq!(blocks(&others), available - 300);
    assert!(fs.reserve_for_mapping(1, Privilege::Ordinary).is_err());

    // The super-user and metadata can use more blocks, but none of those that are set aside.
    let goal = Goal {
        may_use_reserved: true,
        ..Goal::default()
    };
    let reserved = claim_all(fs, goal);
    assert!(blocks(&reserved) > 0);
    let mut handle = fs.start(1000).unwrap();
    let mut metadata = 0;
    while fs.allocate_block(&mut handle, FsBlock(0)).is_ok() {
        metadata += 1;
    }
    handle.stop();
    assert!(metadata > 0);
    let accepted = fs.reserve(290, Privilege::Accepted).unwrap();
    let mapping = fs.reserve_for_mapping(10, Privilege::Accepted).unwrap();
    assert_eq!(fs.statfs().available_blocks, 0);
    // The released clusters are set aside again.
    drop((accepted, mapping));
    assert!(fs.reserve(1, Privilege::Ordinary).is_err());
    drop(fs.reserve(300, Privilege::Accepted).unwrap());
    fs.set_aside(0).unwrap();
    drop(fs.reserve(300, Privilege::Metadata).unwrap());
}
