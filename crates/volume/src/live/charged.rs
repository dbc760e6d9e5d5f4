//! The count of inodes with holds, and the cache memory that is given up for them.
//!
//! A hold is a reference to an inode from an open file or from the kernel. Until the hold is
//! released, its memory cannot be freed. Therefore the caches give up as much memory as the holds
//! take, in frames (the memory of a page), up to a limit that [`budget`] defines. The page cache
//! shrinks by these frames, so the memory of the process does not grow.
//!
//! [`budget`]: larder_cache::budget

use larder_cache::table::Charge;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts the inodes with holds, and takes frames from the caches accordingly.
pub(crate) struct ChargedCount {
    charge: Arc<dyn Charge>,
    count: AtomicU64,
    /// The number of frames that the caches have given up.
    charged: Mutex<u64>,
    most: u64,
    /// The number of inodes for which the caches give up one frame.
    per_frame: u64,
}

impl ChargedCount {
    /// The maximum memory of an inode with holds, in bytes: its entries in this crate's table and
    /// in the mount's table of nodes. An entry consists of 8 bytes and a control byte. A table is
    /// between 7/16 and 7/8 full, so an entry takes 10 to 20 bytes. While a table grows, its old
    /// memory takes another 10 bytes for each entry. The two tables together then take 62 bytes.
    const HOLD_BYTES: u64 = 64;

    /// Creates a count of 0. `charge` gives up frames of `frame_bytes`, at most `most` of them.
    pub(crate) fn new(charge: Arc<dyn Charge>, most: u64, frame_bytes: u64) -> Self {
        Self {
            charge,
            per_frame: (frame_bytes / Self::HOLD_BYTES).max(1),
            count: AtomicU64::new(0),
            charged: Mutex::new(0),
            most,
        }
    }

    /// Increments the count. Returns whether the caller must call [`ChargedCount::settle`], after
    /// it has released its locks.
    pub(crate) fn increment(&self) -> bool {
        let before = self.count.fetch_add(1, Relaxed);
        before.is_multiple_of(self.per_frame)
    }

    /// Decrements the count, which must not be 0. Returns whether the caller must call
    /// [`ChargedCount::settle`], after it has released its locks.
    pub(crate) fn decrement(&self) -> bool {
        let before = self.count.fetch_sub(1, Relaxed);
        before % self.per_frame == 1 || self.per_frame == 1
    }

    /// Takes frames from the caches, or returns frames to them, until the number of frames matches
    /// the count.
    pub(crate) fn settle(&self) {
        let mut charged = self.charged.lock();
        let due = self.count.load(Relaxed).div_ceil(self.per_frame);
        let due = due.min(self.most);
        while *charged < due && self.charge.charge() {
            *charged += 1;
        }
        while *charged > due {
            self.charge.uncharge();
            *charged -= 1;
        }
    }
}

impl std::fmt::Debug for ChargedCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChargedCount")
            .field("count", &self.count)
            .field("charged", &self.charged)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of free frames.
    struct Frames(AtomicU64);

    impl Charge for Frames {
        fn charge(&self) -> bool {
            let left = self.0.load(Relaxed);
            self.0.store(left.saturating_sub(1), Relaxed);
            left > 0
        }

        fn uncharge(&self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn frames_follow_the_count() {
        for (frames, most, given_up) in [(10, 10, 3), (10, 2, 2), (1, 10, 1)] {
            let pool = Arc::new(Frames(AtomicU64::new(frames)));
            let count = ChargedCount::new(pool.clone(), most, 4096);
            for _ in 0..129 {
                if count.increment() {
                    count.settle();
                }
            }
            assert_eq!(pool.0.load(Relaxed), frames - given_up);
            for _ in 0..129 {
                if count.decrement() {
                    count.settle();
                }
            }
            assert_eq!(pool.0.load(Relaxed), frames, "all frames are returned");
        }
    }
}
