//! Models of commits, checkpoints and aborts, run under many interleavings:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p larder-ext4 --lib shuttle
//! ```
//!
//! A failure prints the schedule that led to it, for `shuttle::replay`.

use super::checkpoint::{Logged, Ring};
use super::progress::Progress;
use super::running::{Snapshot, Tid};
use crate::sync::Mutex;
use crate::{Error, FsBlock, Result};
use std::sync::Arc;

/// The number of schedules that each of two schedulers tries for each model. One scheduler chooses
/// the next thread at random; the other assigns random priorities, and runs the thread with the
/// highest priority.
const SCHEDULES: usize = 10_000;

fn check(model: fn()) {
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// A model of a journal. Transactions, and the data outside the journal, are sets of numbers
/// instead of blocks.
struct Model {
    progress: Progress,
    running: Mutex<(Tid, Vec<u32>)>,
    /// The data that was written to the device.
    written: Mutex<Vec<u32>>,
    /// The part of the written data that survives a power cut.
    durable: Mutex<Vec<u32>>,
    commits: Mutex<u32>,
    /// The number of the flush that fails, counted from 1; 0 if none fails.
    failing_flush: u32,
    flushes: Mutex<u32>,
}

impl Model {
    fn new(failing_flush: u32) -> Arc<Self> {
        Arc::new(Self {
            progress: Progress::new(Tid(u32::MAX)),
            running: Mutex::new((Tid(0), Vec::new())),
            written: Mutex::default(),
            durable: Mutex::default(),
            commits: Mutex::default(),
            failing_flush,
            flushes: Mutex::default(),
        })
    }

    /// Makes one change with a new handle.
    fn change(&self, number: u32) -> Tid {
        let mut running = self.running.lock();
        running.1.push(number);
        running.0
    }

    /// Makes durable the data that was written before this call.
    fn flush(&self) -> Result<()> {
        let covered = self.written.lock().clone();
        let number = {
            let mut flushes = self.flushes.lock();
            *flushes += 1;
            *flushes
        };
        if number == self.failing_flush {
            self.progress.fail("failing flush");
            return Err(Error::Aborted("failing flush".into()));
        }
        self.durable.lock().extend(covered);
        Ok(())
    }

    fn commit_running(&self) -> Result<()> {
        let (tid, changes) = {
            let mut running = self.running.lock();
            if running.1.is_empty() {
                return Ok(());
            }
            let sealed = (running.0, std::mem::take(&mut running.1));
            running.0 = running.0.next();
            sealed
        };
        self.progress.flush(|| self.flush())?;
        self.progress.check()?;
        self.written.lock().extend(changes);
        self.progress.flush(|| self.flush())?;
        self.progress.set_committed(tid);
        *self.commits.lock() += 1;
        Ok(())
    }

    fn commit(&self, tid: Tid) -> Result<()> {
        self.progress
            .wait_for(tid, || self.commit_running(), || self.flush())
    }

    fn is_durable(&self, number: u32) -> bool {
        self.durable.lock().contains(&number)
    }
}

/// Runs three threads, each of which makes a change or writes data, and then makes it durable.
fn callers(model: &Arc<Model>, mut caller: impl FnMut(u32) -> Box<dyn FnOnce() + Send>) {
    let threads: Vec<_> = (0..3)
        .map(|number| shuttle::thread::spawn(caller(number)))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    drop(model.running.lock());
}

#[test]
fn shuttle_change_committed_by_any_caller_is_durable() {
    check(|| {
        let model = Model::new(0);
        callers(&model, |number| {
            let model = Arc::clone(&model);
            Box::new(move || {
                let tid = model.change(number);
                model.commit(tid).unwrap();
                assert!(model.is_durable(number));
            })
        });
        assert!((1..=3).contains(&*model.commits.lock()));
    });
}

#[test]
fn shuttle_content_written_before_a_commit_is_durable_after_it() {
    check(|| {
        let model = Model::new(0);
        callers(&model, |number| {
            let model = Arc::clone(&model);
            Box::new(move || {
                // One thread also changes metadata. The other threads only overwrite content.
                let tid = if number == 0 { model.change(9) } else { Tid(0) };
                model.written.lock().push(number);
                model.commit(tid).unwrap();
                assert!(model.is_durable(number));
            })
        });
    });
}

#[test]
fn shuttle_failed_flush_fails_every_waiter_and_stops_writing() {
    check(|| {
        let model = Model::new(2);
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        callers(&model, |number| {
            let (model, outcomes) = (Arc::clone(&model), Arc::clone(&outcomes));
            Box::new(move || {
                let tid = model.change(number);
                let outcome = model.commit(tid);
                assert!(outcome.is_err());
                assert!(!model.is_durable(number));
                outcomes.lock().push(outcome.is_err());
            })
        });
        assert_eq!(outcomes.lock().len(), 3);
        assert_eq!(*model.commits.lock(), 0);
    });
}

#[test]
fn shuttle_freed_block_is_not_overwritten_by_a_checkpoint_in_flight() {
    const BLOCK: FsBlock = FsBlock(7);
    check(|| {
        let ring = Ring { first: 1, end: 9 };
        let logged = Arc::new(Logged::new(ring, 1, 1, Tid(0)));
        let progress = Arc::new(Progress::new(Tid(u32::MAX)));
        let home = Arc::new(Mutex::new("old"));
        let snapshot = |tid, blocks, revoked| Snapshot {
            tid,
            blocks,
            revoked,
            order: None,
        };
        logged.committed(&snapshot(Tid(0), vec![(BLOCK, Arc::from([1]))], vec![]), 3);
        let checkpoint = {
            let (logged, progress, home) = (logged.clone(), progress.clone(), home.clone());
            shuttle::thread::spawn(move || {
                let work = || {
                    let batch = logged.begin();
                    shuttle::thread::yield_now();
                    if batch.blocks.contains_key(&BLOCK) {
                        *home.lock() = "metadata";
                    }
                    shuttle::thread::yield_now();
                    logged.end(&batch);
                    Ok(())
                };
                progress.checkpoint(work).unwrap();
            })
        };
        let mut revoked = vec![BLOCK];
        logged.retain_logged(&mut revoked);
        logged.committed(&snapshot(Tid(1), vec![], revoked.clone()), 5);
        progress
            .wait_until(|| !logged.is_in_flight(&revoked))
            .unwrap();
        // The block now contains file content.
        *home.lock() = "content";
        checkpoint.join().unwrap();
        assert_eq!(*home.lock(), "content");
    });
}
