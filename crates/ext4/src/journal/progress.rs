//! Group commit: which thread commits, checkpoints or flushes, and which threads wait for it.
//!
//! # Model
//! jbd2's `j_commit_sequence` and wait queues, without jbd2's thread: a thread that needs a
//! transaction to be committed commits it, unless another commit is in progress. In that case, the
//! thread waits until the commit in progress ends. Then one of the waiting threads commits the next
//! transaction for all of them.
//!
//! A commit also makes durable all data that was written before its last flush began. A thread that
//! writes data outside the journal after that flush has begun needs another flush. Such flushes are
//! shared between threads in the same way.
//!
//! # Invariants
//! 1. There is at most one commit, one checkpoint and one shared flush at a time.
//! 2. `committed` never decreases. It and all transactions before it are durable.
//! 3. After a failure, no thread begins new work.
//!
//! # Locking
//! There is one lock, which is held for a few instructions. A thread that holds the lock of the
//! running transaction may take this lock, but not vice versa.

use crate::ondisk::jbd2::Tid;
use crate::sync::{Condvar, Mutex, MutexGuard, wait};
use crate::{Error, Result};
use std::sync::{Arc, OnceLock};

/// Work that only one thread may do at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Commit,
    Checkpoint,
    SharedFlush,
}

/// The state of transactions.
#[derive(Debug)]
pub(super) struct Progress {
    state: Mutex<State>,
    changed: Condvar,
    failure: OnceLock<Arc<str>>,
}

#[derive(Debug)]
struct State {
    /// The last transaction that is durable.
    committed: Tid,
    /// For each [`Work`], whether a thread is doing it.
    busy: [bool; 3],
    /// The number of device flushes that have begun.
    flushes_begun: u64,
    /// The number of the last device flush that succeeded.
    flushes_done: u64,
}

/// The exclusive right of a thread to do some work, which ends when this value is dropped. If the
/// thread panics meanwhile, all writing stops, so that no thread waits forever.
struct Turn<'p> {
    progress: &'p Progress,
    work: Work,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = "a thread panicked during a commit, a checkpoint or a flush";
            let _ = self.progress.failure.set(reason.into());
        }
        self.progress.state.lock().busy[self.work as usize] = false;
        self.progress.changed.notify_all();
    }
}

impl Progress {
    /// Creates the state in which no work is in progress and `committed` is the last durable
    /// transaction.
    pub(super) fn new(committed: Tid) -> Self {
        Self {
            state: Mutex::new(State {
                committed,
                busy: [false; 3],
                flushes_begun: 0,
                flushes_done: 0,
            }),
            changed: Condvar::new(),
            failure: OnceLock::new(),
        }
    }

    /// Returns the reason why writing stopped; `None` if it has not stopped.
    pub(super) fn failure(&self) -> Option<&Arc<str>> {
        self.failure.get()
    }

    /// Stops all writing because of `reason`. Returns false if writing had already stopped.
    pub(super) fn fail(&self, reason: &str) -> bool {
        let is_first = self.failure.set(reason.into()).is_ok();
        // A thread that is about to wait holds this lock from its check for a failure until it waits. So once the
        // lock is held here, each other thread either waits and is notified, or will see the failure.
        let state = self.state.lock();
        self.changed.notify_all();
        drop(state);
        is_first
    }

    /// Returns an error if writing has stopped.
    pub(super) fn check(&self) -> Result<()> {
        match self.failure() {
            None => Ok(()),
            Some(reason) => Err(Error::Aborted(Arc::clone(reason))),
        }
    }

    /// Records that transaction `tid` is durable.
    pub(super) fn set_committed(&self, tid: Tid) {
        self.state.lock().committed = tid;
    }

    /// Waits until transaction `tid` and everything that was written to the device before this call
    /// are durable. If necessary, the calling thread does the work: `commit` must commit the
    /// running transaction, unless it is empty, and `flush` must flush the device.
    pub(super) fn wait_for(
        &self,
        tid: Tid,
        commit: impl Fn() -> Result<()>,
        flush: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let wanted_flush = state.flushes_begun + 1;
        let mut is_reached = false;
        loop {
            self.check()?;
            is_reached |= !state.committed.is_before(tid);
            let work = match is_reached {
                true if state.flushes_done >= wanted_flush => return Ok(()),
                true => Work::SharedFlush,
                false => Work::Commit,
            };
            if state.busy[work as usize] {
                state = wait(&self.changed, state);
                continue;
            }
            let turn = self.turn(&mut state, work);
            drop(state);
            if work == Work::Commit {
                commit()?;
                // If the running transaction was empty, transaction `tid` is already durable.
                is_reached = true;
            } else {
                self.flush(&flush)?;
            }
            drop(turn);
            state = self.state.lock();
        }
    }

    /// Waits until no commit is in progress.
    pub(super) fn wait_for_commit(&self) -> Result<()> {
        drop(self.wait_while(|state| state.busy[Work::Commit as usize])?);
        self.check()
    }

    /// Waits until no other checkpoint is in progress, and then does `work`.
    pub(super) fn checkpoint(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut state = self.wait_while(|state| state.busy[Work::Checkpoint as usize])?;
        self.check()?;
        let turn = self.turn(&mut state, Work::Checkpoint);
        drop(state);
        let outcome = work();
        drop(turn);
        outcome
    }

    /// Waits until `holds` returns true. The result of `holds` may change only when a commit, a
    /// checkpoint or a shared flush ends.
    pub(super) fn wait_until(&self, holds: impl Fn() -> bool) -> Result<()> {
        self.wait_while(|_| !holds()).map(drop)
    }

    fn wait_while(&self, must_wait: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state.lock();
        while must_wait(&state) {
            self.check()?;
            state = wait(&self.changed, state);
        }
        Ok(state)
    }

    /// Flushes the device with `flush`, on behalf of all threads that wait for a flush.
    pub(super) fn flush(&self, flush: impl Fn() -> Result<()>) -> Result<()> {
        let number = {
            let mut state = self.state.lock();
            state.flushes_begun += 1;
            state.flushes_begun
        };
        flush()?;
        let mut state = self.state.lock();
        state.flushes_done = state.flushes_done.max(number);
        Ok(())
    }

    fn turn(&self, state: &mut MutexGuard<'_, State>, work: Work) -> Turn<'_> {
        state.busy[work as usize] = true;
        Turn {
            progress: self,
            work,
        }
    }
}
