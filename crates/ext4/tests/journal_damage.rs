//! Damaged and hostile journals. If one byte is wrong, the verdict is the same as the kernel's. No
//! damage causes a panic, an endless loop or unbounded memory use.

mod dirty;

use dirty::Dirty;
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::journal::{Recovery, recover};
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Error, Result};
use larder_testkit::{Access, LoopMount, Random, Requirement, Seed, skip};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const MAGIC: [u8; 4] = [0xC0, 0x3B, 0x39, 0x98];

fn recovered(image: Vec<u8>) -> Result<Recovery> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(image));
    let superblock = Superblock::read(&*device)?;
    recover(superblock, device)
}

/// Makes a few transactions, with revocations, in a journal of 1,024 blocks.
fn work(root: &Path, sync: &dyn Fn()) {
    for round in 0..3 {
        let dir = root.join(format!("dir{round}"));
        fs::create_dir(&dir).unwrap();
        for number in 0..30 {
            fs::write(dir.join(number.to_string()), "x".repeat(3000)).unwrap();
        }
        sync();
    }
    fs::remove_dir_all(root.join("dir1")).unwrap();
    sync();
    fs::write(root.join("last"), "last").unwrap();
    sync();
}

/// Returns the byte offsets of the journal's blocks in the image.
fn journal_offsets(image: &Dirty) -> Vec<usize> {
    let blocks = image.journal_blocks();
    let offset = |block: &u64| usize::try_from(block * 1024).unwrap();
    blocks.iter().map(offset).collect()
}

/// Returns the journal's used blocks: its superblock and the log.
fn used(image: &[u8], journal: &[usize]) -> Vec<usize> {
    let is_used = |at: &usize| image[*at..*at + 1024].iter().any(|byte| *byte != 0);
    journal.iter().copied().filter(is_used).collect()
}

fn read_all(recovery: &Recovery) -> Vec<u8> {
    let len = usize::try_from(recovery.device.size_bytes()).unwrap();
    let mut bytes = vec![0; len];
    recovery.device.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Returns the blocks in which two images differ, except for those of the journal and the
/// superblock.
fn differing(ours: &[u8], theirs: &[u8], journal: &[usize]) -> Vec<usize> {
    let journal: BTreeSet<usize> = journal.iter().copied().collect();
    (0..ours.len())
        .step_by(1024)
        .filter(|at| *at != 1024 && !journal.contains(at))
        .filter(|at| ours[*at..*at + 1024] != theirs[*at..*at + 1024])
        .map(|at| at / 1024)
        .collect()
}

#[test]
fn one_wrong_byte_in_the_log_gets_the_kernels_verdict() {
    if skip(&[Requirement::LoopMount, Requirement::Tool("debugfs")]) {
        return;
    }
    let seed = Seed::from_environment(0x6a62_6432);
    println!("seed {seed}");
    let mut refused = 0;
    for (part, options) in (0..).zip(["", "journal_async_commit,data=writeback"]) {
        let mut random = Random::new(seed.part(part));
        let dirty = Dirty::make("-t ext4 -b 1024 -J size=1", "8M", options, work);
        let image = fs::read(dirty.path()).unwrap();
        let journal = journal_offsets(&dirty);
        let log = used(&image, &journal);
        let recovery = recovered(image.clone()).unwrap();
        let transactions = recovery.counts.transactions;
        for round in 0..24 {
            // Headers and commit blocks are the most important.
            let headers: Vec<usize> = log
                .iter()
                .copied()
                .filter(|at| image[*at..*at + 4] == MAGIC)
                .collect();
            let blocks = if round % 3 == 0 { &log } else { &headers };
            let block = *random.choose(blocks).unwrap();
            let at = block
                + usize::try_from(random.below(if round % 2 == 0 { 64 } else { 1024 })).unwrap();
            let mut damaged = image.clone();
            damaged[at] ^= 1 << random.below(8);
            fs::write(dirty.path(), &damaged).unwrap();
            let kernel = LoopMount::new(dirty.path(), Access::ReadWrite, &["ro"]).map(drop);
            let what = format!("{options}: byte {} of block {}", at % 1024, at / 1024);
            match (recovered(damaged), kernel) {
                (Ok(ours), Ok(())) => {
                    let bytes = read_all(&ours);
                    let theirs = fs::read(dirty.path()).unwrap();
                    let blocks = differing(&bytes, &theirs, &journal);
                    assert!(
                        blocks.is_empty(),
                        "{what}: {:?}: blocks {blocks:?} differ",
                        ours.counts
                    );
                }
                (Err(Error::Corrupt(_) | Error::UnsupportedFeature(_)), Err(_)) => refused += 1,
                // With asynchronous commits, a data block may be missing after a crash: Larder ends
                // the log before that transaction, and the kernel fails.
                (Ok(ours), Err(_))
                    if options.contains("async")
                        && ours.counts.transactions + 1 == transactions => {}
                (ours, kernel) => panic!(
                    "{what}: Larder's verdict {:?}, the kernel's {kernel:?}",
                    ours.map(|ours| ours.counts)
                ),
            }
        }
    }
    assert!(refused > 0, "nothing was refused");
}

#[test]
fn random_damage_of_journal_never_panics() {
    if skip(&[Requirement::LoopMount, Requirement::Tool("debugfs")]) {
        return;
    }
    let seed = Seed::from_environment(0x6a62_6433);
    println!("seed {seed}");
    for (part, arguments) in (0..).zip([
        "-t ext4 -b 1024 -J size=1",
        "-t ext3 -b 1024 -J size=1",
        "-t ext4 -b 1024 -O fast_commit,^metadata_csum",
    ]) {
        let mut random = Random::new(seed.part(part));
        let dirty = Dirty::make(arguments, "16M", "", |root, sync| {
            work(root, sync);
            fs::write(root.join("fast"), "fast").unwrap();
            fs::File::open(root.join("fast"))
                .unwrap()
                .sync_all()
                .unwrap();
        });
        let image = fs::read(dirty.path()).unwrap();
        let blocks = used(&image, &journal_offsets(&dirty));
        let mut outcomes = [0; 2];
        for _ in 0..300 {
            let mut damaged = image.clone();
            for _ in 0..=random.below(6) {
                let block = *random.choose(&blocks).unwrap();
                let at = block + usize::try_from(random.below(1000)).unwrap();
                let len = usize::try_from(random.below(9)).unwrap();
                random.fill(&mut damaged[at..at + len]);
            }
            let outcome = recovered(damaged);
            outcomes[usize::from(outcome.is_err())] += 1;
        }
        println!(
            "{arguments}: {} recovered, {} refused",
            outcomes[0], outcomes[1]
        );
    }
}

#[test]
fn fast_commit_damaged_ends_the_walk_before_it() {
    if skip(&[Requirement::LoopMount, Requirement::Tool("debugfs")]) {
        return;
    }
    let dirty = Dirty::make("-t ext4 -b 1024 -O fast_commit", "16M", "", |root, sync| {
        work(root, sync);
        for number in 0..5 {
            let path = root.join(format!("fast{number}"));
            fs::write(&path, "fast").unwrap();
            fs::File::open(&path).unwrap().sync_all().unwrap();
        }
    });
    let image = fs::read(dirty.path()).unwrap();
    let commits = recovered(image.clone()).unwrap().counts.fast_commits;
    assert_eq!(commits, 5);
    // Each fast commit starts a block. The first one starts with tag 9.
    let journal = journal_offsets(&dirty);
    let is_head = |at: &&usize| image[**at..**at + 4] == [9, 0, 8, 0];
    let head = *journal.iter().find(is_head).unwrap();
    for number in 0..commits {
        let block = head + 1024 * number as usize;
        for at in [block, block + 30] {
            let mut damaged = image.clone();
            damaged[at] ^= 0x10;
            // In the kernel, damage in the first commit is an error, and damage in a later one ends
            // the replay.
            let outcome = recovered(damaged);
            let is_head = at == head;
            if number == 0 && !is_head {
                assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
                continue;
            }
            let recovery = outcome.unwrap();
            assert_eq!(recovery.counts.fast_commits, number, "byte {at}");
            assert_eq!(recovery.overlay.is_some(), number > 0);
        }
    }
}

/// Returns an image created by mke2fs, with a superblock that requires recovery.
fn needing_recovery() -> (Dirty, Vec<u8>) {
    let dirty = Dirty::unmounted("-t ext4 -O ^metadata_csum,^64bit -b 1024 -J size=1", "8M");
    let mut image = fs::read(dirty.path()).unwrap();
    image[1024 + 0x60] |= 4;
    (dirty, image)
}

fn put(image: &mut [u8], at: usize, words: &[u32]) {
    for (word, target) in words.iter().zip(image[at..].chunks_exact_mut(4)) {
        target.copy_from_slice(&word.to_be_bytes());
    }
}

#[test]
fn log_without_end_is_corrupt() {
    if skip(&[Requirement::Tool("mke2fs"), Requirement::Tool("debugfs")]) {
        return;
    }
    let magic = u32::from_be_bytes(MAGIC);
    let (dirty, mut image) = needing_recovery();
    let journal = journal_offsets(&dirty);
    put(&mut image, journal[0] + 0x18, &[7, 1]);
    assert_eq!(recovered(image.clone()).unwrap().counts.transactions, 0);
    // First, every block is a revoke block of one transaction. Then every block is a descriptor,
    // and its tags leave no space for a commit block.
    let revoke = [magic, 5, 7, 16];
    let descriptor = [magic, 1, 7, 100, 2, 101, 2, 102, 2];
    for words in [&revoke[..], &descriptor[..]] {
        for at in &journal[1..] {
            put(&mut image, *at, words);
        }
        let error = recovered(image.clone()).unwrap_err();
        println!("{error}");
        assert!(error.to_string().starts_with("journal block "), "{error}");
    }
}

#[test]
fn journal_in_other_places_is_refused_by_name() {
    if skip(&[Requirement::Tool("mke2fs"), Requirement::Tool("debugfs")]) {
        return;
    }
    let (dirty, image) = needing_recovery();
    let journal = journal_offsets(&dirty);
    let mut external = image.clone();
    external[1024 + 0xe0] = 0;
    assert!(matches!(
        recovered(external.clone()),
        Err(Error::ExternalJournal)
    ));
    external[1024 + 0x60] &= !4;
    assert!(recovered(external).is_ok());
    // `s_blocksize` and `s_maxlen` that differ from the file's.
    for (at, word) in [(0xc, 4096), (0x10, u32::MAX)] {
        let mut image = image.clone();
        put(&mut image, journal[0] + 0x18, &[7, 1]);
        put(&mut image, journal[0] + at, &[word]);
        assert!(
            matches!(recovered(image), Err(Error::Corrupt(_))),
            "{at:#x}"
        );
    }
    // A home outside the file system.
    let mut image = image;
    put(&mut image, journal[0] + 0x18, &[7, 1]);
    let magic = u32::from_be_bytes(MAGIC);
    put(&mut image, journal[1], &[magic, 1, 7, 8192, 8]);
    put(&mut image, journal[3], &[magic, 2, 7]);
    let error = recovered(image).unwrap_err().to_string();
    assert!(error.starts_with("journal block 2: "), "{error}");
}
