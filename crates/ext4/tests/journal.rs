//! Journals with full transactions, written by the kernel and debugfs. Larder's recovery is
//! compared with the blocks that these programs write home.

mod dirty;

use dirty::{Dirty, replayed_by};
use larder_block::{BlockDevice, FileDevice, FileRange};
use larder_ext4::journal::{JournalState, Recovery, recover};
use larder_ext4::ondisk::superblock::Superblock;
use larder_testkit::e2fsprogs::debugfs_script;
use larder_testkit::{Access, Requirement, skip};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

/// The mke2fs arguments and the mount options.
const CONFIGURATIONS: &[(&str, &str)] = &[
    ("-t ext4", ""),
    ("-t ext4 -b 1024 -J size=1", ""),
    ("-t ext4 -b 4096", "data=journal"),
    ("-t ext4 -b 1024 -O ^metadata_csum", "data=journal"),
    ("-t ext4 -O ^metadata_csum,^64bit", "journal_checksum"),
    (
        "-t ext4 -O ^metadata_csum,^64bit",
        "journal_checksum,data=journal",
    ),
    (
        "-t ext4 -O ^metadata_csum",
        "journal_async_commit,data=writeback",
    ),
    ("-t ext4", "journal_async_commit,data=writeback"),
    ("-t ext3 -b 1024 -J size=1", "data=journal"),
    ("-t ext3 -b 4096", ""),
    ("-t ext3 -b 2048", "data=writeback"),
];

/// Features of mke2fs and options of debugfs's `journal_open`, for each size of tag. Without
/// `metadata_csum`, no option for checksums is given, because debugfs would then write a CRC-32
/// into commit blocks, which the kernel rejects.
const DEBUGFS_FORMATS: &[(&str, &str)] = &[
    ("^64bit,^metadata_csum", ""),
    ("64bit,^metadata_csum", ""),
    ("^64bit,metadata_csum", "-c -v 2"),
    ("64bit,metadata_csum", "-c -v 2"),
    ("^64bit,metadata_csum", "-c -v 3"),
    ("64bit,metadata_csum", "-c -v 3"),
];

fn needs() -> bool {
    skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("debugfs"),
    ])
}

/// Creates and removes many files, which causes revocations and makes a small log wrap around.
fn churn(root: &Path, sync: &dyn Fn()) {
    let magic = [&0xC03B_3998_u32.to_be_bytes()[..], &[7; 5000]].concat();
    for round in 0..6 {
        let dir = root.join(format!("round{round}"));
        fs::create_dir(&dir).unwrap();
        for number in 0..120 {
            let name = format!("{number:03}-{}", "n".repeat(100));
            fs::write(dir.join(&name), &magic).unwrap();
            if number % 10 == 0 {
                fs::create_dir(dir.join(format!("d{number}"))).unwrap();
                symlink("x".repeat(100), dir.join(format!("l{number}"))).unwrap();
            }
        }
        sync();
        if round % 2 == 0 {
            fs::remove_dir_all(&dir).unwrap();
        }
        fs::write(root.join(format!("big{round}")), vec![round; 400_000]).unwrap();
        sync();
    }
    fs::remove_dir_all(root.join("round1")).unwrap();
    fs::write(root.join("after"), &magic).unwrap();
    sync();
}

fn open(image: &Path) -> Recovery {
    let device: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(image, FileRange::default()).unwrap());
    let superblock = Superblock::read(&*device).unwrap();
    recover(superblock, device).unwrap()
}

/// Returns the blocks that differ between `recovery` and the image that was replayed by `other`,
/// except for the journal and the superblock, which record the replay.
fn differing_blocks(recovery: &Recovery, other: &Path, journal: &BTreeSet<u64>) -> Vec<u64> {
    let block_bytes = usize::try_from(recovery.superblock.block_size_bytes()).unwrap();
    let expected = fs::read(other).unwrap();
    let mut ours = vec![0; expected.len()];
    recovery.device.read_at(&mut ours, 0).unwrap();
    ours[1024..2048].copy_from_slice(&expected[1024..2048]);
    ours.chunks(block_bytes)
        .zip(expected.chunks(block_bytes))
        .zip(0_u64..)
        .filter(|((ours, expected), block)| ours != expected && !journal.contains(block))
        .map(|(_, block)| block)
        .collect()
}

#[test]
fn kernel_crash_recovers_as_kernel_and_debugfs_replay_it() {
    if needs() {
        return;
    }
    let mut revocations = 0;
    for (arguments, options) in CONFIGURATIONS {
        let what = format!("mke2fs {arguments}, mount -o {options}");
        let dirty = Dirty::make(arguments, "64M", options, churn);
        let recovery = open(dirty.path());
        println!("{what}: {:?}", recovery.counts);
        assert_eq!(recovery.state, JournalState::Recovered, "{what}");
        assert!(recovery.counts.redirected_blocks > 0, "{what}");
        assert!(recovery.overlay.is_none(), "{what}");
        revocations += recovery.counts.revocations;
        let journal = dirty.journal_blocks();
        for oracle in [replayed_by::kernel, replayed_by::debugfs] {
            let other = oracle(&dirty);
            let differing = differing_blocks(&recovery, other.path(), journal);
            assert!(differing.is_empty(), "{what}: blocks {differing:?} differ");
        }
    }
    assert!(revocations > 0, "no configuration had revocations");
}

#[test]
fn debugfs_transactions_recover_as_debugfs_replays_them() {
    if needs() {
        return;
    }
    for (features, checksums) in DEBUGFS_FORMATS {
        let what = format!("{features}, jo {checksums}");
        let dirty = Dirty::unmounted(&format!("-t ext4 -b 1024 -O {features}"), "32M");
        let blocks = dirty.dir().join("blocks");
        let bytes: Vec<u8> = (0..1024 * 80_u32)
            .map(|at| (at / 1024 + 1).to_le_bytes()[0])
            .collect();
        fs::write(&blocks, bytes).unwrap();
        let blocks = blocks.display();
        let script = format!(
            "jo {checksums}\n\
             jw -b 20000-20079 {blocks}\njw -b 20040-20119 {blocks}\n\
             jw -r 20010-20020\njw -b 20015 {blocks}\njc\n"
        );
        debugfs_script(dirty.path(), Access::ReadWrite, &script).unwrap();
        let recovery = open(dirty.path());
        println!("{what}: {:?}", recovery.counts);
        assert_eq!(recovery.counts.transactions, 4, "{what}");
        assert_eq!(recovery.counts.revocations, 11, "{what}");
        let journal = dirty.journal_blocks();
        let other = replayed_by::debugfs(&dirty);
        let differing = differing_blocks(&recovery, other.path(), journal);
        assert!(differing.is_empty(), "{what}: blocks {differing:?} differ");
    }
}

#[test]
fn unmounted_image_is_clean() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    for (arguments, state) in [
        ("-t ext4", JournalState::Clean),
        ("-t ext2", JournalState::None),
    ] {
        let recovery = open(Dirty::unmounted(arguments, "16M").path());
        assert_eq!(recovery.state, state);
        assert_eq!(recovery.counts.redirected_blocks, 0);
    }
}
