//! Journals that the kernel left, checkpointed to the image, and compared with the kernel's own
//! replay.

mod dirty;
mod image;

use dirty::{Dirty, replayed_by};
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::journal::RecoveryCounts;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Error, WriteOptions};
use larder_instruments::FaultyDevice;
use larder_testkit::e2fsprogs::check;
use larder_testkit::{Requirement, skip};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The mke2fs arguments and the mount options.
const CONFIGURATIONS: &[(&str, &str)] = &[
    ("-t ext4", ""),
    ("-t ext4 -b 1024 -J size=1", "data=journal"),
    ("-t ext4 -O ^metadata_csum,^64bit", "journal_checksum"),
    (
        "-t ext4 -O ^metadata_csum",
        "journal_async_commit,data=writeback",
    ),
    ("-t ext3 -b 1024 -J size=1", "data=journal"),
    ("-t ext3 -b 4096", ""),
];

fn needs() -> bool {
    skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("debugfs"),
        Requirement::Tool("e2fsck"),
    ])
}

/// Creates and removes many files, which causes revocations.
fn churn(root: &Path, sync: &dyn Fn()) {
    let magic = [&0xC03B_3998_u32.to_be_bytes()[..], &[7; 5000]].concat();
    for round in 0..5 {
        let dir = root.join(format!("round{round}"));
        fs::create_dir(&dir).unwrap();
        for number in 0..100 {
            let name = format!("{number:03}-{}", "n".repeat(100));
            fs::write(dir.join(&name), &magic).unwrap();
        }
        sync();
        if round % 2 == 0 {
            fs::remove_dir_all(&dir).unwrap();
            sync();
        }
    }
}

fn device(image: &Dirty) -> Arc<dyn BlockDevice> {
    Arc::new(MemoryDevice::new(fs::read(image.path()).unwrap()))
}

/// Opens the device for writing and closes it again. Returns the counts of the recovery.
fn recover_home(device: &Arc<dyn BlockDevice>) -> Result<RecoveryCounts, Error> {
    let mut fs = image::open(device);
    fs.enable_writing(Arc::clone(device), WriteOptions::default())?;
    fs.close()?;
    Ok(fs.recovered())
}

/// Returns the blocks in which two images differ, except for those of the journal, and the
/// superblock, which counts mounts.
fn differing_blocks(
    ours: &dyn BlockDevice,
    theirs: &dyn BlockDevice,
    block_bytes: usize,
    journal: &BTreeSet<u64>,
) -> Vec<u64> {
    let mut images = [ours, theirs].map(|device| {
        let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
        device.read_at(&mut bytes, 0).unwrap();
        bytes[1024..2048].fill(0);
        bytes
    });
    let [ours, theirs] = &mut images;
    let pairs = ours.chunks(block_bytes).zip(theirs.chunks(block_bytes));
    pairs
        .zip(0_u64..)
        .filter(|((ours, theirs), block)| ours != theirs && !journal.contains(block))
        .map(|(_, block)| block)
        .collect()
}

fn check_clean(bytes: &dyn BlockDevice, path: &Path) {
    let mut all = vec![0; usize::try_from(bytes.size_bytes()).unwrap()];
    bytes.read_at(&mut all, 0).unwrap();
    fs::write(path, all).unwrap();
    check(path).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn journal_of_the_kernel_is_replayed_as_by_the_kernel() {
    if needs() {
        return;
    }
    for (arguments, options) in CONFIGURATIONS {
        let what = format!("{arguments} {options}");
        let dirty = Dirty::make(arguments, "64M", options, churn);
        let theirs = replayed_by::kernel(&dirty);
        let ours = device(&dirty);
        let counts = recover_home(&ours).unwrap_or_else(|error| panic!("{what}: {error}"));
        println!("{what}: {counts:?}");
        assert!(counts.redirected_blocks > 0, "{what}");
        let block_bytes = image::open(&ours).superblock().block_size_bytes() as usize;
        let journal = dirty.journal_blocks();
        let differing = differing_blocks(&*ours, &*device(&theirs), block_bytes, journal);
        assert_eq!(differing, [0_u64; 0], "{what}");
        check_clean(&*ours, dirty.path());
        assert_eq!(
            recover_home(&ours).unwrap(),
            RecoveryCounts::default(),
            "{what}"
        );
    }
}

#[test]
fn recovery_interrupted_by_any_failed_write_can_be_repeated() {
    if needs() {
        return;
    }
    let churned = Dirty::make("-t ext4 -b 1024 -J size=1", "16M", "", churn);
    assert_interrupted_recovery_repeats("transactions", &churned);
    let arguments = "-t ext4 -b 1024 -O fast_commit -J size=4";
    let logged = Dirty::make(arguments, "16M", "", |root, sync| {
        fs::write(root.join("old"), [5; 9000]).unwrap();
        sync();
        for number in 0..20 {
            let path = root.join(format!("{number}-{}", "n".repeat(100)));
            fs::write(&path, vec![7; 3000 * number]).unwrap();
            fs::File::open(path).unwrap().sync_all().unwrap();
        }
        fs::remove_file(root.join("old")).unwrap();
        fs::write(root.join("last"), "").unwrap();
        fs::File::open(root.join("last"))
            .unwrap()
            .sync_all()
            .unwrap();
    });
    assert_interrupted_recovery_repeats("fast commits", &logged);
}

/// Recovers `dirty`, whose blocks have 1 KiB, with a failure of each write in turn, and then again
/// without a failure.
fn assert_interrupted_recovery_repeats(what: &str, dirty: &Dirty) {
    let whole = device(dirty);
    let counts = recover_home(&whole).unwrap();
    println!("{what}: {counts:?}");
    let journal = dirty.journal_blocks();
    let mut torn = 0;
    for number in 0..400 {
        let ours = device(dirty);
        let faulty: Arc<dyn BlockDevice> =
            Arc::new(FaultyDevice::new(Arc::clone(&ours)).fail_write(number));
        let is_done = recover_home(&faulty).is_ok();
        if Superblock::read(&*ours).is_err() {
            // The first half of the superblock was written, but not its checksum. The journal
            // cannot be found then.
            torn += 1;
            continue;
        }
        recover_home(&ours).unwrap_or_else(|error| panic!("{what}, write {number}: {error}"));
        let differing = differing_blocks(&*ours, &*whole, 1024, journal);
        assert_eq!(differing, [0_u64; 0], "{what}, write {number}");
        if is_done {
            println!("{what}: {number} writes, the superblock torn by {torn}");
            assert!(number > 5 && torn <= 4);
            return;
        }
    }
    panic!("recovery never succeeded");
}
