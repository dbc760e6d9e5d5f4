//! Transactions written to the log. After a crash at any point, Larder, e2fsck and the kernel
//! replay the log to the same committed state.

mod image;
mod journal_fixture;

use journal_fixture::{Fixture, Prepared, check_clean, file, needs, recovered, save};
use larder_block::BlockDevice;
use larder_ext4::Tid;
use larder_ext4::ondisk::superblock::Superblock;
use larder_instruments::{ChangeRecord, OverlayDevice, PowerCuts};
use larder_testkit::e2fsprogs::e2fsck;
use larder_testkit::seed::Seed;
use larder_testkit::{Access, LoopMount};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The arguments of mke2fs, and the version of checksums that debugfs gives to the journal. The
/// journals have the minimum size, so that the log wraps around.
const LAYOUTS: &[(&str, &str)] = &[
    ("-t ext4 -b 1024 -J size=1", ""),
    ("-t ext4 -b 4096 -J size=4 -O ^metadata_csum,^64bit", ""),
    ("-t ext4 -b 1024 -J size=1 -O ^metadata_csum,64bit", ""),
    ("-t ext4 -b 1024 -J size=1 -O metadata_csum,^64bit", ""),
    ("-t ext4 -b 1024 -J size=1", "2"),
    ("-t ext4 -b 1024 -J size=1 -O ^64bit", "2"),
    ("-t ext4 -b 2048 -J size=2 -O fast_commit", ""),
    ("-t ext3 -b 1024 -J size=1", ""),
    ("-t ext2 -b 1024", ""),
];

/// The number of changes between two images that the tools replay.
const TOOL_STRIDE: usize = 97;

#[test]
fn image_closed_after_many_transactions_is_clean_and_complete() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(1);
    println!("seed {seed}");
    for (arguments, checksums) in LAYOUTS {
        println!("{arguments}");
        let prepared = Prepared::new(arguments, checksums);
        let mut fixture = Fixture::new(&prepared, prepared.device(), seed).unwrap();
        for step in 0..600 {
            fixture.change(30).unwrap();
            if step % 7 == 0 {
                fixture.commit().unwrap();
            }
        }
        fixture.commit().unwrap();
        fixture.fs.close().unwrap();
        assert_eq!(fixture.fs.buffers().dirty_count(), 0);
        assert_eq!(fixture.state_of(&*fixture.device), fixture.running());
        save(&*fixture.device, prepared.image.path());
        check_clean(prepared.image.path());
        let superblock = Superblock::read(&*fixture.device).unwrap();
        let mut features = superblock.incompat.names();
        assert!(!features.any(|name| name == "needs_recovery"));
        if !checksums.is_empty() {
            let text = prepared.image.dumpe2fs();
            assert!(text.contains("journal_checksum_v2"), "{text}");
        }
    }
}

#[test]
fn power_cut_at_any_write_is_replayed_to_a_committed_state() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(2);
    println!("seed {seed}");
    for (number, (arguments, checksums)) in (0..).zip(LAYOUTS) {
        if arguments.starts_with("-t ext2") {
            // Without a journal, no state is guaranteed.
            continue;
        }
        let prepared = Prepared::new(arguments, checksums);
        let mut fixture = Fixture::new(&prepared, prepared.device(), seed.part(number)).unwrap();
        let opened = fixture.device.take_changes();
        for step in 0..150 {
            fixture.change(20).unwrap();
            if step % 5 == 0 {
                fixture.commit().unwrap();
            }
        }
        let changes = fixture.device.take_changes();
        cut_everywhere(
            &prepared,
            &fixture,
            &after(&prepared.base, &opened),
            &changes,
        );
    }
}

/// Returns the device after `changes`.
fn after(base: &Arc<[u8]>, changes: &[ChangeRecord]) -> OverlayDevice {
    let device = OverlayDevice::new(Arc::clone(base));
    let mut cuts = PowerCuts::new(&device, changes);
    cuts.advance_to(changes.len()).unwrap();
    cuts.all_written()
}

fn cut_everywhere(
    prepared: &Prepared,
    fixture: &Fixture,
    opened: &OverlayDevice,
    changes: &[ChangeRecord],
) {
    let mut cuts = PowerCuts::new(opened, changes);
    let mut seen = BTreeSet::new();
    for position in 0..changes.len() {
        cuts.advance_to(position).unwrap();
        let mut devices = vec![cuts.all_written()];
        for seed in 0..2 {
            devices.push(cuts.reordered(position as u64 * 2 + seed).unwrap());
        }
        for (which, device) in devices.into_iter().enumerate() {
            let what = format!("{} after {position}.{which}", prepared.image.made_by());
            let device: Arc<dyn BlockDevice> = Arc::new(device);
            let tid = fixture.state_of(&*recovered(Arc::clone(&device)));
            let tid = tid.unwrap_or_else(|| panic!("{what}: no committed state"));
            let durable = fixture.durable_after(position);
            assert!(!tid.is_before(durable), "{what}: {tid} of {durable}");
            seen.insert(tid.0);
            if position % TOOL_STRIDE == which {
                replay_by_tools(prepared, fixture, &*device, tid, &what);
            }
        }
    }
    let (made_by, states) = (prepared.image.made_by(), seen.len());
    println!("{made_by}: {} changes, {states} states seen", changes.len());
    assert!(states > 20);
}

/// Asserts that e2fsck and the kernel replay to the same state as Larder.
fn replay_by_tools(
    prepared: &Prepared,
    fixture: &Fixture,
    device: &dyn BlockDevice,
    tid: Tid,
    what: &str,
) {
    let path = prepared.image.path();
    save(device, path);
    let replayed = e2fsck("-y -E journal_only").arg(path).run();
    replayed.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(
        fixture.state_of(&*file(path)),
        Some(tid),
        "{what}: by e2fsck"
    );
    check_clean(path);
    save(device, path);
    let mount = LoopMount::new(path, Access::ReadWrite, &[]);
    drop(mount.unwrap_or_else(|error| panic!("{what}: {error}")));
    let by_kernel = fixture.state_of(&*file(path));
    assert_eq!(by_kernel, Some(tid), "{what}: by the kernel");
    check_clean(path);
}
