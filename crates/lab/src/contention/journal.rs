//! The journal of the simulated file system.
//!
//! # Model
//! jbd2. Changed blocks are added to the running transaction. If the transaction already has its maximum
//! number of blocks, its commit begins, and the added block starts a new transaction. Only one transaction
//! can be committed at a time. If an earlier commit is still in progress, the addition of the block waits for
//! the end of that commit. The duration of a commit is proportional to its number of blocks.

use serde::Serialize;
use std::collections::HashSet;

/// The size of the journal, and the cost of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JournalSize {
    /// Maximum number of blocks of a transaction.
    pub limit_blocks: usize,
    /// Time to commit one block, in nanoseconds.
    pub block_ns: u64,
}

/// The running transaction, and the one that is being committed.
#[derive(Debug)]
pub(super) struct Journal {
    size: JournalSize,
    running: HashSet<u64>,
    commit_ends_ns: u64,
    commits: u64,
}

impl Journal {
    pub(super) fn new(size: JournalSize) -> Self {
        Self {
            size,
            running: HashSet::new(),
            commit_ends_ns: 0,
            commits: 0,
        }
    }

    /// Returns the number of commits that began.
    pub(super) fn commits(&self) -> u64 {
        self.commits
    }

    /// Adds `block` to the running transaction. If the transaction is full, first begins its commit and a new
    /// transaction.
    ///
    /// # Errors
    /// If the transaction is full and an earlier one is still being committed, adds nothing and returns the
    /// time at which that commit ends.
    pub(super) fn add(&mut self, block: u64, now_ns: u64) -> Result<(), u64> {
        if self.running.contains(&block) {
            return Ok(());
        }
        if self.running.len() >= self.size.limit_blocks {
            if now_ns < self.commit_ends_ns {
                return Err(self.commit_ends_ns);
            }
            self.commit_ends_ns = now_ns + self.size.block_ns * self.running.len() as u64;
            self.commits += 1;
            self.running.clear();
        }
        self.running.insert(block);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_transaction_waits_for_the_commit_of_the_previous_one() {
        let mut journal = Journal::new(JournalSize {
            limit_blocks: 2,
            block_ns: 50,
        });
        let mut add = |block, now_ns| journal.add(block, now_ns);
        assert_eq!([add(1, 0), add(2, 0), add(1, 0)], [Ok(()); 3]);
        // Blocks 1 and 2 are committed until 110.
        assert_eq!([add(3, 10), add(1, 10)], [Ok(()); 2]);
        assert_eq!([add(2, 20), add(2, 109)], [Err(110); 2]);
        assert_eq!(add(3, 30), Ok(()));
        assert_eq!(add(2, 110), Ok(()));
        assert_eq!(journal.commits(), 2);
    }
}
