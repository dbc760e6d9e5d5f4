//! Resident memory stays within the budget of the caches plus 64 MiB, whatever is read. This is the
//! only test in its process, because the kernel counts memory by process.

use larder::{OpenOptions, Volume};
use larder_testkit::image::{LargeFile, recipe};
use larder_testkit::memory::peak_resident_bytes;
use larder_testkit::mutate::{WalkLimits, walk};
use larder_testkit::{Image, Requirement, skip};

const CACHE_BYTES: u64 = 16 << 20;
const SPARE_BYTES: u64 = 64 << 20;

#[test]
fn memory_after_1_gib_and_100000_names_stays_within_budget() {
    if skip(&["mke2fs", "debugfs", "tune2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let large = LargeFile::new(1024).unwrap();
    let image = Image::get(recipe("ext4-100000-files").unwrap()).unwrap();
    let before = peak_resident_bytes();
    let mut options = OpenOptions::default();
    options.cache_size_bytes = CACHE_BYTES;

    let volume = Volume::open_device(large.device.clone(), &options).unwrap();
    let ino = volume.resolve(large.path.as_bytes()).unwrap();
    let mut buf = vec![0; 1 << 20];
    let mut at = 0;
    while at < large.size_bytes {
        assert_eq!(volume.read_at(ino, &mut buf, at).unwrap(), buf.len());
        at += buf.len() as u64;
    }
    drop(volume);

    let volume = Volume::open(image.path(), &options).unwrap();
    let limits = WalkLimits {
        entries: u64::MAX,
        ..WalkLimits::default()
    };
    let outcome = walk(&volume, &limits);
    assert!(outcome.errors == 0 && outcome.entries > 500, "{outcome:?}");
    let growth = peak_resident_bytes() - before;
    println!("{outcome:?}, peak grew {growth} bytes");
    assert!(growth < CACHE_BYTES + SPARE_BYTES, "{growth} bytes");
}
