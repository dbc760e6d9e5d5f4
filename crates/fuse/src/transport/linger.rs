//! Lingering: a thread looks for the next request for a moment before it sleeps until one comes.
//!
//! # Model
//! The halt polling of guests and hosts. A program that does one thing after the other sends its
//! next request some microseconds after the last answer. To wake a thread that went to sleep meanwhile
//! takes longer than most answers do, above all on a virtual processor, which halts.
//!
//! Where the moment passes in vain, or others had the processor meanwhile, nobody gains: then a number
//! of requests is answered without lingering, twice as many each time. So it stays off where
//! processors are short, and on where they idle.
//!
//! # Cost
//! A [`MOMENT`] of processor time a request at most; where it is of no use, one in
//! [`MOST_SKIPPED`] requests.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a thread looks for the next request.
const MOMENT: Duration = Duration::from_micros(50);
/// Requests without lingering after one that did not come in time: at least, and at most.
const LEAST_SKIPPED: u32 = 256;
const MOST_SKIPPED: u32 = 1 << 16;

/// Whether to linger. One thread at a time does; should two, they count wrong by one.
#[derive(Debug)]
pub(super) struct Linger {
    /// Requests until the next try.
    skip: AtomicU32,
    /// How many that will be after the next one in vain.
    penalty: AtomicU32,
}

impl Linger {
    pub(super) fn new() -> Self {
        Self {
            skip: AtomicU32::new(0),
            penalty: AtomicU32::new(LEAST_SKIPPED),
        }
    }

    /// Returns when there is something to read from `connection`, or a moment has passed; at once
    /// if that was in vain lately.
    pub(super) fn wait(&self, connection: impl AsFd) {
        let skip = self.skip.load(Relaxed);
        if skip > 0 {
            self.skip.store(skip - 1, Relaxed);
            return;
        }
        let start = Instant::now();
        let mut polled = [PollFd::new(&connection, PollFlags::IN)];
        let at_once = Timespec::default();
        while matches!(poll(&mut polled, Some(&at_once)), Ok(0)) && start.elapsed() < MOMENT {}
        self.count(start.elapsed() < MOMENT);
    }

    /// Counts a moment, in which the request came or not.
    fn count(&self, came: bool) {
        let penalty = self.penalty.load(Relaxed);
        let next = if came {
            penalty - 1
        } else {
            self.skip.store(penalty, Relaxed);
            penalty * 2
        };
        self.penalty
            .store(next.clamp(LEAST_SKIPPED, MOST_SKIPPED), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;

    #[test]
    fn moment_that_passed_in_vain_is_spent_again_only_after_many_requests() {
        let (connection, _no_request) = pipe().unwrap();
        let linger = Linger::new();
        for skipped in [LEAST_SKIPPED, 2 * LEAST_SKIPPED] {
            linger.wait(&connection);
            for left in (0..skipped).rev() {
                assert_eq!(linger.skip.load(Relaxed), left + 1);
                linger.wait(&connection);
            }
            assert_eq!(linger.skip.load(Relaxed), 0);
        }
    }

    #[test]
    fn penalty_doubles_up_to_the_most_and_is_taken_back_by_success() {
        let linger = Linger::new();
        linger.count(true);
        assert_eq!(linger.penalty.load(Relaxed), LEAST_SKIPPED);
        for _ in 0..20 {
            linger.count(false);
        }
        assert_eq!(linger.skip.load(Relaxed), MOST_SKIPPED);
        linger.count(true);
        assert_eq!(linger.penalty.load(Relaxed), MOST_SKIPPED - 1);
    }
}
