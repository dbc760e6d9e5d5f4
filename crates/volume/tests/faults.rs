//! A device that fails one call in each run of a seeded workload, a different call each time. No
//! run panics, and no operation fails with an error other than `EIO`, `ENOSPC` or `EROFS`.
//! Afterwards, the file system can be recovered, and contains all durable changes.
//!
//! With `LARDER_CRASH=full` (`make crash`), every call to a device in memory fails in turn. Without it, only
//! some of the calls fail. On files, some of the calls fail with each back end. In memory, some of the calls also fail
//! while requests complete out of order.

use larder_instruments::{FaultyDevice, OverlayDevice};
use larder_testkit::crash::{History, ImageFile, Layout, Run, caught, layout, open, run};
use larder_testkit::model::Model;
use larder_testkit::operation::{Generator, Listing, Mix, Operation, kind_of_failure, shrink};
use larder_testkit::{Medium, Requirement, Seed, Stored, skip, test_layouts};
use rustix::io::Errno;
use std::ops::Range;

const OPERATIONS: usize = 300;
const MIX: Mix = Mix {
    max_nodes: 60,
    max_bytes: 1 << 20,
    syncs_one_in: 10,
    shares_one_in: 0,
    reopens: true,
    far: true,
};

const SHARING: Mix = MIX.sharing();

/// The number of calls that fail in turn on each layout in a short run.
const SHORT_CALLS: u64 = 60;

/// The number of calls that fail in turn on each layout with each other medium.
const FILE_CALLS: u64 = 6;

fn is_expected_errno(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::ROFS | Errno::NOSPC)
}

/// Runs the workload on a store that fails call `number`. Returns the run, the resulting image, and the numbers of the
/// calls of the run. Earlier calls open the disk.
fn fail_at(
    layout: &Layout,
    medium: Medium,
    operations: &[Operation],
    number: u64,
) -> Result<(Run, Stored, Range<u64>), String> {
    let disk = layout.base().map_err(|error| error.to_string())?;
    let disk = OverlayDevice::new(disk);
    // Half of the faults have the errno of a host file system without free space.
    let errno = if number.is_multiple_of(2) {
        Errno::IO
    } else {
        Errno::NOSPC
    };
    let faulty = |device| {
        FaultyDevice::new(device)
            .fail_calls(number..number.saturating_add(1))
            .with_errno(errno)
    };
    let restored = (medium.store_of(&disk)).and_then(|store| medium.restore(&disk, &store, faulty));
    let (image, faulty) = restored.map_err(|error| error.to_string())?;
    let (device, first) = (image.device(), faulty.call_count());
    let empty = Model::new(layout.rules);
    let done = run(empty, &device, operations, || 0, is_expected_errno)?;
    Ok((done, image, first..faulty.call_count()))
}

/// Recovers the file system in `image`, and compares it with the expected state.
fn check(run: Run, image: Stored) -> Result<(), String> {
    let image = image.reopened().map_err(|error| error.to_string())?;
    let volume = open(image.device()).map_err(|error| format!("recovering: {error}"))?;
    History::new(run).check(&volume, usize::MAX)?;
    volume
        .close()
        .map_err(|error| format!("closing: {error}"))?;
    drop(volume);
    let content = image.content().map_err(|error| error.to_string())?;
    let image = ImageFile::new(&content).map_err(|error| error.to_string())?;
    image.check().map_err(|error| error.to_string())
}

fn attempt(
    layout: &Layout,
    medium: Medium,
    operations: &[Operation],
    number: u64,
) -> Result<(), String> {
    caught(|| {
        let (run, image, _) = fail_at(layout, medium, operations, number)?;
        check(run, image)
    })
}

fn survive(name: &str, seed: u64, mix: Mix) {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let layout = layout(name).unwrap_or_else(|| panic!("no layout {name}"));
    let seed = Seed::from_environment(seed);
    let operations = Generator::new(seed, mix).sequence(&Model::new(layout.rules), OPERATIONS);
    let is_full = std::env::var("LARDER_CRASH").is_ok_and(|value| value == "full");
    let memory_calls = if is_full { u64::MAX } else { SHORT_CALLS };
    survive_on(layout, Medium::Memory, seed, &operations, memory_calls);
    for medium in Medium::others(seed) {
        survive_on(layout, medium, seed, &operations, FILE_CALLS);
    }
}

/// Runs the workload about `count` times. In each run, another call of the device fails.
fn survive_on(layout: &Layout, medium: Medium, seed: Seed, operations: &[Operation], count: u64) {
    let name = layout.name;
    let (_, image, calls) = fail_at(layout, medium, operations, u64::MAX)
        .unwrap_or_else(|what| panic!("{name}, {medium}, seed {seed}, no faults: {what}"));
    assert!(
        image.request_count() > 0,
        "the back end performed no request"
    );
    // The step is odd, so that the selected calls include reads, writes and flushes.
    let step = ((calls.end - calls.start) / count) | 1;
    for call in calls.clone().step_by(usize::try_from(step).unwrap()) {
        let Err(what) = attempt(layout, medium, operations, call) else {
            continue;
        };
        let smallest = shrink(operations, 60, |rest| {
            attempt(layout, medium, rest, call)
                .is_err_and(|other| kind_of_failure(&other) == kind_of_failure(&what))
        });
        panic!(
            "{name}, {medium}, seed {seed}, call {call} of {calls:?} failed: {what}\nsmallest sequence:\n{}",
            Listing(&smallest)
        );
    }
    println!("{name}, {medium}: calls {calls:?}, one in {step} failed");
}

test_layouts! {
    survive MIX 0x6000
    0 ext4_survives_faults "ext4"
    1 ext3_1k_survives_faults "ext3-1k"
    2 inline_data_survives_faults "inline-data"
    3 small_journal_1k_survives_faults "small-journal-1k"
    4 orphan_file_survives_faults "orphan-file"
}

test_layouts! {
    survive SHARING 0x6100
    0 ext4_shared_attributes_survive_faults "ext4"
    1 ea_inode_1k_shared_attributes_survive_faults "ea-inode-1k"
}
