//! Failures while the journal is written: the file system becomes read-only, and committed
//! transactions persist.

mod image;
mod journal_fixture;

use journal_fixture::{Fixture, Prepared, check_clean, needs, recovered, save};
use larder_block::BlockDevice;
use larder_ext4::{Error, Ino, Result, Tid};
use larder_instruments::FaultyDevice;
use larder_testkit::e2fsprogs::e2fsck;
use larder_testkit::seed::Seed;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SMALL: &str = "-t ext4 -b 1024 -J size=1";

/// Makes enough handles and commits for the log to wrap around.
fn work(fixture: &mut Fixture) -> Result<()> {
    for step in 0..60 {
        fixture.change(40)?;
        if step % 3 == 0 {
            fixture.commit()?;
        }
    }
    fixture.fs.close()
}

/// Works on a device with the fault that `plan` creates. Returns false if the fault did not occur.
fn fails_safely(
    prepared: &Prepared,
    seed: Seed,
    what: &str,
    plan: impl FnOnce(FaultyDevice) -> FaultyDevice,
) -> bool {
    let device = prepared.device();
    let faulty = Arc::new(plan(FaultyDevice::new(Arc::clone(&device))));
    let Ok(mut fixture) = Fixture::new(prepared, Arc::clone(&faulty) as _, seed) else {
        // No relevant change was made.
        return true;
    };
    let Err(error) = work(&mut fixture) else {
        let failed = faulty.failed_count();
        assert_eq!(failed, fixture.failed_content, "{what}: not reported");
        return failed > 0;
    };
    let reason = fixture.fs.failure();
    let reason = reason.unwrap_or_else(|| panic!("{what}: {error}, but writing continues"));
    assert!(!fixture.fs.is_writable());
    let refused = fixture.fs.start(1).map(drop);
    assert!(matches!(refused, Err(Error::ReadOnly(Some(why))) if why == reason));
    let tid = fixture.fs.running_tid().unwrap();
    assert!(
        matches!(fixture.fs.commit(tid), Err(Error::Aborted(_))),
        "{what}"
    );
    assert!(fixture.fs.close().is_err(), "{what}");
    let Some(left) = fixture.state_of(&*recovered(Arc::clone(&device))) else {
        panic!("{what}: {reason}: no committed state");
    };
    assert!(
        !left.is_before(fixture.durable()),
        "{what}: lost what was committed"
    );
    let path = prepared.image.path();
    save(&*device, path);
    let replayed = e2fsck("-y -E journal_only").arg(path).run();
    replayed.unwrap_or_else(|error| panic!("{what}: {error}"));
    // The first check corrects only the record of the error, and has exit status 1.
    let _ = e2fsck("-fy").arg(path).run();
    check_clean(path);
    true
}

#[test]
fn failed_write_stops_all_writing_and_keeps_what_was_committed() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(3);
    println!("seed {seed}");
    let prepared = Prepared::new(SMALL, "");
    let mut number = 0;
    while fails_safely(&prepared, seed, &format!("write {number}"), |device| {
        device.fail_write(number)
    }) {
        number += 1;
    }
    println!("{number} writes");
    assert!(number > 100);
}

#[test]
fn failed_flush_stops_all_writing_and_keeps_what_was_committed() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(4);
    println!("seed {seed}");
    let prepared = Prepared::new(SMALL, "");
    let mut number = 0;
    while fails_safely(&prepared, seed, &format!("flush {number}"), |device| {
        device.fail_flush(number)
    }) {
        number += 1;
    }
    println!("{number} flushes");
    assert!(number > 40);
}

#[test]
fn alternating_changes_of_block_parts_cost_one_credit_and_are_undone() {
    if needs() {
        return;
    }
    let prepared = Prepared::new(SMALL, "");
    let fixture = Fixture::new(&prepared, prepared.device(), Seed(6)).unwrap();
    let block = prepared.blocks[0];
    let mut handle = fixture.fs.start(1).unwrap();
    let fill = |bytes: &mut [u8]| {
        bytes.fill(7);
        Ok(())
    };
    handle.update(block, Ino(12), fill).unwrap();
    handle.stop();
    let mut handle = fixture.fs.start(1).unwrap();
    for turn in 0..100 {
        for part in [0..16, 500..520, 8..24] {
            let change = |bytes: &mut [u8]| {
                bytes.fill(turn);
                Ok(())
            };
            handle.update_part(block, Ino(12), part, change).unwrap();
        }
    }
    assert_eq!(handle.credits(), 0);
    drop(handle);
    let found = fixture
        .fs
        .metadata_block(block, Ino(12), |_| Ok(()))
        .unwrap();
    assert!(found.iter().all(|byte| *byte == 7));
    drop(found);
    fixture.fs.close().unwrap();
}

#[test]
fn handle_larger_than_a_transaction_is_refused_and_others_continue() {
    if needs() {
        return;
    }
    let prepared = Prepared::new(SMALL, "");
    let fixture = Fixture::new(&prepared, prepared.device(), Seed(5)).unwrap();
    for credits in [1023, 4096, u32::MAX] {
        let refused = fixture.fs.start(credits).map(drop);
        assert!(matches!(refused, Err(Error::HandleTooLarge)), "{credits}");
    }
    let mut handle = fixture.fs.start(2).unwrap();
    for block in &prepared.blocks[..2] {
        handle
            .update(*block, Ino(12), |bytes| {
                bytes.fill(7);
                Ok(())
            })
            .unwrap();
    }
    let third = handle.update(prepared.blocks[2], Ino(12), |_| Ok(()));
    assert!(matches!(third, Err(Error::HandleTooLarge)));
    drop(handle);
    assert_eq!(fixture.fs.buffers().dirty_count(), 0);
    fixture.fs.close().unwrap();
}

#[test]
fn commits_of_many_threads_share_flushes_and_lose_nothing() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 50;
    if needs() {
        return;
    }
    let prepared = Prepared::new(SMALL, "");
    let fixture = Fixture::new(&prepared, prepared.device(), Seed(6)).unwrap();
    let last = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (fixture, last) = (&fixture, &last);
            let block = prepared.blocks[usize::try_from(thread).unwrap()];
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let mut handle = fixture.fs.start(1).unwrap();
                    let put = |bytes: &mut [u8]| {
                        bytes[..8].copy_from_slice(&round.to_le_bytes());
                        Ok(())
                    };
                    handle.update(block, Ino(12), put).unwrap();
                    let tid = handle.stop();
                    fixture.fs.commit(tid).unwrap();
                    last.fetch_max(tid.0.into(), Ordering::Relaxed);
                }
            });
        }
    });
    let next = fixture.fs.running_tid().unwrap();
    assert_eq!(u64::from(next.0), last.into_inner() + 1);
    let device = recovered(Arc::clone(&fixture.device) as Arc<dyn BlockDevice>);
    for block in &prepared.blocks[..usize::try_from(THREADS).unwrap()] {
        let mut bytes = [0; 8];
        device.read_at(&mut bytes, block.0 * 1024).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), ROUNDS);
    }
    let commits = next.0.wrapping_sub(Tid(2).0);
    println!("{commits} commits for {} callers", THREADS * ROUNDS);
    fixture.fs.close().unwrap();
}
