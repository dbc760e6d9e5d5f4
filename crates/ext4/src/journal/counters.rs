//! Counts and durations of commits, checkpoints, and waits for them.

use larder_block::{LatencyHistogram, LatencyStats};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Why a transaction is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitReason {
    /// A change must be durable.
    Sync,
    /// The transaction is old.
    Age,
    /// The transaction is large, the log has too little space, or blocks were freed that are needed now.
    Space,
}

/// Counters of the commits and checkpoints of a file system.
#[derive(Debug, Default)]
pub(super) struct Counters {
    blocks: AtomicU64,
    logged_blocks: AtomicU64,
    /// The number of commits for each [`CommitReason`].
    commits: [AtomicU64; 3],
    commit_latency: LatencyHistogram,
    checkpoint_latency: LatencyHistogram,
    waiting_handles: AtomicU64,
    handle_wait_latency: LatencyHistogram,
}

/// The commits and checkpoints since a file system was opened. A transaction without changed blocks is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalCounts {
    /// The durations of the commits, each from the start of the commit until the transaction is durable.
    pub commit_latency: LatencyStats,
    /// The number of metadata blocks in committed transactions.
    pub blocks: u64,
    /// The number of blocks that were written to the log.
    pub logged_blocks: u64,
    /// The number of commits because a change had to be durable.
    pub sync_commits: u64,
    /// The number of commits of old transactions.
    pub timed_commits: u64,
    /// The number of commits for space in the transaction, in the log or on the device.
    pub space_commits: u64,
    /// The durations of the checkpoints that wrote blocks.
    pub checkpoint_latency: LatencyStats,
    /// The number of threads that wait now for a commit or a checkpoint, to open a handle.
    pub waiting_handles: u64,
    /// The times for which threads waited for a commit or a checkpoint, to open a handle.
    pub handle_wait_latency: LatencyStats,
}

impl Counters {
    /// Counts a commit of `blocks` blocks.
    pub(super) fn count_commit(&self, reason: CommitReason, blocks: usize, duration: Duration) {
        self.commits[reason as usize].fetch_add(1, Relaxed);
        self.blocks.fetch_add(blocks as u64, Relaxed);
        self.commit_latency.record(duration);
    }

    /// Counts blocks that were written to the log.
    pub(super) fn count_logged(&self, blocks: u32) {
        self.logged_blocks.fetch_add(blocks.into(), Relaxed);
    }

    /// Counts a checkpoint that wrote blocks.
    pub(super) fn count_checkpoint(&self, duration: Duration) {
        self.checkpoint_latency.record(duration);
    }

    /// Counts the time of `wait`, in which the calling thread waits until it can open a handle.
    pub(super) fn count_wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        self.waiting_handles.fetch_add(1, Relaxed);
        let result = wait();
        self.waiting_handles.fetch_sub(1, Relaxed);
        self.handle_wait_latency.record(start.elapsed());
        result
    }

    pub(super) fn counts(&self) -> JournalCounts {
        let commits = |reason: CommitReason| self.commits[reason as usize].load(Relaxed);
        JournalCounts {
            commit_latency: self.commit_latency.stats(),
            blocks: self.blocks.load(Relaxed),
            logged_blocks: self.logged_blocks.load(Relaxed),
            sync_commits: commits(CommitReason::Sync),
            timed_commits: commits(CommitReason::Age),
            space_commits: commits(CommitReason::Space),
            checkpoint_latency: self.checkpoint_latency.stats(),
            waiting_handles: self.waiting_handles.load(Relaxed),
            handle_wait_latency: self.handle_wait_latency.stats(),
        }
    }
}
