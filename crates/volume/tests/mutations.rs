//! Damaged images: a walk of the image never panics, always ends, and uses a limited amount of
//! memory.
//!
//! `LARDER_SEED` replaces the seed of every campaign, and `LARDER_IMAGES` the number of images in
//! each campaign. A failure prints the seed and the plan of the damage.

use larder_block::{BlockDevice, FileDevice, FileRange};
use larder_testkit::image::recipe;
use larder_testkit::memory::peak_resident_bytes;
use larder_testkit::mutate::Campaign;
use larder_testkit::{Image, Requirement, Seed, skip};
use std::sync::Arc;

/// The number of damaged images of each kind, unless `LARDER_IMAGES` is set.
const IMAGES_EACH: u64 = 120;
/// The maximum growth of memory: for caches of 4 MiB, code and test data.
const MAX_GROWTH_BYTES: u64 = 192 << 20;

/// Damages images of the recipe with and without checksums. With checksums, most damage is detected
/// at once. Without checksums, the code continues to use damaged metadata.
fn survive(name: &str, number: u64) {
    let tools = ["mke2fs", "debugfs", "tune2fs", "e2fsck"].map(Requirement::Tool);
    let recipe = recipe(name).unwrap_or_else(|| panic!("no recipe {name}"));
    if skip(&tools) || (recipe.needs_kernel() && skip(&[Requirement::LoopMount])) {
        return;
    }
    let images = std::env::var("LARDER_IMAGES").map_or(IMAGES_EACH, |count| count.parse().unwrap());
    for recipe in [recipe.small(), recipe.small().without_checksums()] {
        let seed = Seed::from_environment(0x2000 + number).part(u64::from(recipe.checksums));
        let image = Image::get(&recipe).unwrap_or_else(|error| panic!("{name}: {error}"));
        let base: Arc<dyn BlockDevice> =
            Arc::new(FileDevice::open(image.path(), FileRange::default()).unwrap());
        let campaign =
            Campaign::new(name, base, seed).unwrap_or_else(|error| panic!("{name}: {error}"));
        let before = peak_resident_bytes();
        let tally = campaign.run(images);
        let growth = peak_resident_bytes().saturating_sub(before);
        println!(
            "{name}, checksums {}, seed {seed}: {} metadata blocks, {tally:?}, peak grew {growth} bytes",
            recipe.checksums,
            campaign.map().block_count()
        );
        assert_eq!(tally.images, images);
        // A campaign that damages nothing, or only blocks that are never read, proves nothing.
        assert!(
            tally.with_errors + tally.refused > images / 20,
            "{name}: {tally:?}"
        );
        assert!(
            growth < MAX_GROWTH_BYTES,
            "{name}: {growth} bytes, seed {seed}"
        );
    }
}

macro_rules! campaigns {
    ($($number:literal $test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                survive($name, $number);
            }
        )*
    };
}

campaigns! {
    1 ext2_rev0_damaged_is_survived "ext2-rev0-1k"
    2 ext3_damaged_is_survived "ext3-2k"
    3 ext4_damaged_is_survived "ext4-2k-no-journal"
    4 ext4_1k_damaged_is_survived "hash-tea"
    5 meta_bg_damaged_is_survived "meta-bg"
    6 bigalloc_damaged_is_survived "bigalloc"
    7 inline_data_damaged_is_survived "inline-data"
    8 ea_inode_damaged_is_survived "ea-inode"
    9 large_dir_damaged_is_survived "large-dir-1k"
    10 dirty_journal_damaged_is_survived "dirty-ext4"
    11 dirty_fast_commit_damaged_is_survived "dirty-fast-commit-1k"
    12 dirty_journalled_data_damaged_is_survived "dirty-journalled-data"
}
