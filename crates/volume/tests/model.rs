//! Seeded operations through a volume, compared with the model. After each operation, the changed files are
//! compared, and at the end all files. Then e2fsck checks the image, and the kernel's mount is compared with
//! the model. The device is in memory. One sequence on each layout also runs on files, with each back end and
//! with readahead, and one in memory with requests that complete out of order.
//!
//! `LARDER_SEQUENCES` sets the number of sequences on each layout. A failure prints the smallest
//! sequence that fails, and the seed. If `LARDER_SEED` is set to that seed, only this sequence is
//! tried.

use larder::{Ino, OpenOptions, Volume};
use larder_block::BlockDevice;
use larder_instruments::OverlayDevice;
use larder_testkit::crash::{ImageFile, Layout, layout};
use larder_testkit::model::{Model, compare_all};
use larder_testkit::operation::{
    Generator, Listing, Mix, Operation, Performer, kind_of_failure, shrink,
};
use larder_testkit::{
    Access, Comparison, Medium, Oracle, Requirement, Seed, VolumeSource, compare, report_skipped,
    skip, test_layouts,
};
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const SEQUENCES: usize = 3;
const OPERATIONS: usize = 400;
const MIX: Mix = Mix {
    max_nodes: 120,
    max_bytes: 2 << 20,
    syncs_one_in: 0,
    shares_one_in: 0,
    reopens: true,
    far: true,
};

const SHARING: Mix = MIX.sharing();

const CACHE_BYTES: u64 = 2 << 20;

/// The size of caches in which hardly anything stays: nearly every operation must read its metadata
/// from the device.
const TINY_CACHE_BYTES: u64 = 64 << 10;

/// The conditions of a run.
#[derive(Clone, Copy)]
struct Setting<'a> {
    layout: &'a Layout,
    medium: Medium,
    cache_size_bytes: u64,
}

/// Performs the operations on a new file system, and leaves it in `device`.
fn perform(
    setting: Setting<'_>,
    device: &Arc<dyn BlockDevice>,
    operations: &[Operation],
) -> Result<(), String> {
    let layout = setting.layout;
    let opened = || {
        let mut options = OpenOptions::default();
        options.read_write = true;
        options.cache_size_bytes = setting.cache_size_bytes;
        if setting.medium == Medium::Memory {
            options.readahead_max_bytes = 0;
        }
        options.commit_seconds = 3600;
        Volume::open_device(Arc::clone(device), &options)
            .map_err(|error| format!("opening: {error}"))
    };
    let same = |differences: Vec<String>, when: &dyn std::fmt::Display| {
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!("{when}: {differences:#?}"))
    };
    let mut performer = Performer::new(Model::new(layout.rules));
    let mut volume = opened()?;
    for operation in operations {
        if *operation == Operation::Reopen {
            volume
                .close()
                .map_err(|error| format!("closing: {error}"))?;
            drop(volume);
            volume = opened()?;
        }
        let before = performer.model.clone();
        // Attributes may fail for lack of space, because they have limits that the model does not
        // include.
        let full = |errno| errno == Errno::NOSPC;
        let when = format!("after operation {} {operation:?}", performer.number());
        performer.perform(&volume, operation, full)?;
        same(performer.compare_changed(&volume, &before), &when)?;
    }
    same(performer.compare_all(&volume), &"at the end")?;
    volume
        .close()
        .map_err(|error| format!("closing: {error}"))?;
    drop(volume);
    // Holds end when the volume is dropped, so apply this to the model too.
    let last = operations.len().try_into().unwrap_or(u32::MAX);
    performer.model.apply(last, &Operation::Reopen);
    let reopened = opened()?;
    let (model, inodes, clock) = (&performer.model, &performer.inodes, &performer.clock);
    same(compare_all(model, &reopened, inodes, clock), &"reopened")
}

fn attempt(setting: Setting<'_>, operations: &[Operation]) -> Result<(), String> {
    let base = (setting.layout.base()).map_err(|error| error.to_string())?;
    let stored =
        (setting.medium.store(&OverlayDevice::new(base))).map_err(|error| error.to_string())?;
    let performed = catch_unwind(AssertUnwindSafe(|| {
        perform(setting, &stored.device(), operations)
    }));
    performed.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("panic: {}", text.unwrap_or_default()))
    })?;
    if stored.request_count() == 0 {
        return Err("the back end performed no request".to_owned());
    }
    let content = stored.content().map_err(|error| error.to_string())?;
    let image = ImageFile::new(&content).map_err(|error| error.to_string())?;
    image.check().map_err(|error| error.to_string())?;
    kernel_reads_the_same(&image)
}

/// Compares the volume with the kernel's mount of the image, if mounts are possible.
fn kernel_reads_the_same(image: &ImageFile) -> Result<(), String> {
    if Requirement::LoopMount.missing().is_some() {
        return Ok(());
    }
    let oracle = Oracle::mounted(image.path(), Access::ReadOnly, None);
    let oracle = oracle.map_err(|error| error.to_string())?;
    let volume = Volume::open(image.path(), &OpenOptions::default());
    let volume = volume.map_err(|error| format!("opening for reading: {error}"))?;
    let comparison = Comparison {
        fields: oracle.fields(),
        closed: &[],
    };
    let report = compare(oracle.source(), &VolumeSource::new(&volume), &comparison);
    if report.difference_count > 0 {
        return Err(format!("the kernel's mount: {report}"));
    }
    Ok(())
}

fn follow_the_model(name: &str, seed: u64, mix: Mix) {
    follow_with_caches(name, seed, mix, CACHE_BYTES);
}

fn follow_the_model_with_tiny_caches(name: &str, seed: u64, mix: Mix) {
    follow_with_caches(name, seed, mix, TINY_CACHE_BYTES);
}

fn follow_with_caches(name: &str, seed: u64, mix: Mix, cache_size_bytes: u64) {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    if let Some(reason) = Requirement::LoopMount.missing() {
        report_skipped(format!("comparison with the kernel: {reason}"));
    }
    let layout = layout(name).unwrap_or_else(|| panic!("no layout {name}"));
    let sequences =
        std::env::var("LARDER_SEQUENCES").map_or(SEQUENCES, |count| count.parse().unwrap());
    let on_memory = std::iter::repeat_n(Medium::Memory, sequences);
    let media = on_memory.chain(Medium::others(Seed(seed)));
    // If the environment sets a seed, each medium runs the sequence of that seed.
    let mut seeds = Seed::parts_from_environment(seed);
    let mut seed = Seed(seed);
    for medium in media {
        seed = seeds.next().unwrap_or(seed);
        let medium = match medium {
            // A failure prints only one seed.
            Medium::Reordered(_) => Medium::Reordered(seed),
            medium => medium,
        };
        let setting = Setting {
            layout,
            medium,
            cache_size_bytes,
        };
        follow_sequence(setting, seed, mix);
    }
}

fn follow_sequence(setting: Setting<'_>, seed: Seed, mix: Mix) {
    let (layout, medium) = (setting.layout, setting.medium);
    let operations = Generator::new(seed, mix).sequence(&Model::new(layout.rules), OPERATIONS);
    let Err(what) = attempt(setting, &operations) else {
        return;
    };
    let same_kind = |other: String| kind_of_failure(&other) == kind_of_failure(&what);
    let smallest = shrink(&operations, 400, |rest| {
        attempt(setting, rest).is_err_and(same_kind)
    });
    let last = attempt(setting, &smallest).err().unwrap_or_default();
    panic!(
        "{}, {medium}, seed {seed}: {what}\nsmallest sequence:\n{}{last}",
        layout.name,
        Listing(&smallest)
    );
}

test_layouts! {
    follow_the_model MIX 0x3000
    0 ext4_follows_the_model "ext4"
    1 ext3_1k_follows_the_model "ext3-1k"
    2 ext4_1k_no_checksums_follows_the_model "ext4-1k-no-checksums"
    3 inline_data_follows_the_model "inline-data"
    4 bigalloc_follows_the_model "bigalloc"
    5 meta_bg_1k_follows_the_model "meta-bg-1k"
    6 inode_128_2k_follows_the_model "inode-128-2k"
    7 orphan_file_follows_the_model "orphan-file"
    8 small_journal_1k_follows_the_model "small-journal-1k"
    9 ext2_1k_follows_the_model "ext2-1k"
    10 no_journal_4k_follows_the_model "no-journal-4k"
    11 ext2_4k_large_inodes_follows_the_model "ext2-4k-large-inodes"
    12 ea_inode_1k_follows_the_model "ea-inode-1k"
}

test_layouts! {
    follow_the_model SHARING 0x3100
    0 ext4_shared_attributes_follow_the_model "ext4"
    1 ext3_1k_shared_attributes_follow_the_model "ext3-1k"
    2 ext4_1k_no_checksums_shared_attributes_follow_the_model "ext4-1k-no-checksums"
    3 inline_data_shared_attributes_follow_the_model "inline-data"
    4 bigalloc_shared_attributes_follow_the_model "bigalloc"
    5 inode_128_2k_shared_attributes_follow_the_model "inode-128-2k"
    6 ext2_1k_shared_attributes_follow_the_model "ext2-1k"
    7 no_journal_4k_shared_attributes_follow_the_model "no-journal-4k"
    8 ea_inode_1k_shared_attributes_follow_the_model "ea-inode-1k"
}

test_layouts! {
    follow_the_model_with_tiny_caches SHARING 0x3200
    0 ext4_with_tiny_caches_follows_the_model "ext4"
    1 inline_data_with_tiny_caches_follows_the_model "inline-data"
    2 bigalloc_with_tiny_caches_follows_the_model "bigalloc"
    3 meta_bg_1k_with_tiny_caches_follows_the_model "meta-bg-1k"
    4 orphan_file_with_tiny_caches_follows_the_model "orphan-file"
    5 small_journal_1k_with_tiny_caches_follows_the_model "small-journal-1k"
    6 ext2_1k_with_tiny_caches_follows_the_model "ext2-1k"
    7 no_journal_4k_with_tiny_caches_follows_the_model "no-journal-4k"
    8 ea_inode_1k_with_tiny_caches_follows_the_model "ea-inode-1k"
}

#[test]
fn empty_volume_equals_empty_model() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    for layout in larder_testkit::crash::LAYOUTS {
        let device = OverlayDevice::new(layout.base().unwrap());
        let volume = Volume::open_device(Arc::new(device), &OpenOptions::default()).unwrap();
        let performer = Performer::new(Model::new(layout.rules));
        assert_eq!(performer.compare_all(&volume), [""; 0], "{}", layout.name);
        assert!(volume.metadata(Ino::ROOT).is_ok());
    }
}
