//! The flusher: a thread that writes back and commits periodically. It also writes back when too
//! many blocks are dirty.
//!
//! Model: `wb_workfn` and `balance_dirty_pages`, and jbd2's commit timer.
//!
//! # Tunables
//! | name | unit | default | Linux |
//! |---|---|---|---|
//! | dirty blocks at which the flusher starts | share of the page cache | a quarter | 10% of memory |
//! | dirty blocks at which writers write back | share of the page cache | a half | 20% of memory |
//! | `commit_seconds` | seconds | 5 | 5; 30 for content |

use super::WriteBack;
use super::wakeup::FlusherSignal;
use crate::{Result, background};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest time between two checks of the transaction's age and of the free space in the log.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The next action of the flusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Stop,
    /// Write back all files and commit.
    Commit,
    /// Write back all files, because too many blocks are dirty.
    WriteBack,
    /// Commit the transaction if it is old or nearly full. Checkpoint if more than half of the log, or
    /// of the memory for dirty metadata, is used.
    Check,
}

/// The schedule of the periodic commits.
#[derive(Debug)]
struct Schedule {
    interval: Duration,
    due: Instant,
}

impl Schedule {
    fn new(interval: Duration, now: Instant) -> Self {
        let due = now + interval;
        Self { interval, due }
    }

    /// Returns the time at which the flusher must stop waiting for a signal.
    fn deadline(&self, now: Instant) -> Instant {
        self.due.min(now + CHECK_INTERVAL)
    }

    /// Returns the action at `now`. A due commit has priority over requests for write-back: a
    /// writer that is faster than the device sends such requests continuously, and the action
    /// `Commit` also writes back.
    fn next(&mut self, now: Instant, signal: FlusherSignal) -> Action {
        match signal {
            FlusherSignal::Stop => Action::Stop,
            _ if now >= self.due => {
                self.due = now + self.interval;
                Action::Commit
            }
            FlusherSignal::WriteBack => Action::WriteBack,
            FlusherSignal::None => Action::Check,
        }
    }
}

/// The flusher thread of a volume. Dropping this handle stops the thread and waits for its end.
#[derive(Debug)]
pub(crate) struct Flusher {
    write_back: Arc<WriteBack>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts a flusher that commits every `commit_seconds`. 0 means the default, as in Linux.
    pub(crate) fn start(write_back: &Arc<WriteBack>, commit_seconds: u32) -> Result<Self> {
        let seconds = match commit_seconds {
            0 => 5,
            seconds => seconds,
        };
        let interval = Duration::from_secs(seconds.into());
        let panicked = "the flusher thread panicked";
        let for_thread = Arc::clone(write_back);
        let thread =
            background::spawn(&write_back.inodes, "larder-flusher", panicked, move || {
                run(&for_thread, interval);
            })?;
        Ok(Self {
            write_back: Arc::clone(write_back),
            thread: Some(thread),
        })
    }
}

fn run(write_back: &WriteBack, interval: Duration) {
    let mut schedule = Schedule::new(interval, Instant::now());
    loop {
        let deadline = schedule.deadline(Instant::now());
        let signal = write_back.wakeup.wait(deadline);
        let check = || Ok(write_back.inodes.fs.commit_if_old(interval)?);
        let done = match schedule.next(Instant::now(), signal) {
            Action::Stop => return,
            Action::Commit => write_back.write_all_and_commit(),
            Action::WriteBack => write_back.write_all().and(check()),
            Action::Check => check(),
        };
        if let Err(error) = done {
            // There is no caller to return the error to. The next fsync of an affected file fails.
            write_back.background_failed(&error);
            if !write_back.inodes.fs.is_writable() {
                return;
            }
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.write_back.wakeup.send(FlusherSignal::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic was caught and logged in the thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    #[test]
    fn commit_is_due_in_time_despite_constant_write_back_requests() {
        let start = Instant::now();
        let mut schedule = Schedule::new(INTERVAL, start);
        let mut commits = Vec::new();
        for tenths in 1..=160 {
            let now = start + Duration::from_millis(100 * tenths);
            match schedule.next(now, FlusherSignal::WriteBack) {
                Action::Commit => commits.push(tenths),
                action => assert_eq!(action, Action::WriteBack, "at {tenths}"),
            }
        }
        assert_eq!(commits, [50, 100, 150]);
    }

    #[test]
    fn flusher_without_signals_checks_the_log_and_commits_when_due() {
        let start = Instant::now();
        let mut schedule = Schedule::new(INTERVAL, start);
        let mut now = start;
        let mut actions = Vec::new();
        for _ in 0..6 {
            now = schedule.deadline(now);
            actions.push(schedule.next(now, FlusherSignal::None));
        }
        let mut expected = [Action::Check; 6];
        expected[4] = Action::Commit;
        assert_eq!(actions, expected);
    }

    #[test]
    fn stop_precedes_a_commit_that_is_due() {
        let start = Instant::now();
        let mut schedule = Schedule::new(INTERVAL, start);
        let action = schedule.next(start + 2 * INTERVAL, FlusherSignal::Stop);
        assert_eq!(action, Action::Stop);
    }
}
