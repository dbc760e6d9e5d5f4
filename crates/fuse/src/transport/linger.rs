//! Lingering: a thread looks for the next request for a moment before it sleeps until one comes.
//!
//! # Model
//! The halt polling of guests and hosts. A program that does one thing after the other sends its
//! next request some microseconds after the last answer. To wake a thread that went to sleep meanwhile
//! takes longer than most answers do, above all on a virtual processor, which halts. Where
//! the moment passes in vain, or others had the processor meanwhile, nobody gains: then a
//! number of requests is answered without lingering.
//!
//! # Cost
//! A poll(2) a request; where it is of no use, a [`MOMENT`] of processor time in [`SKIPPED`] requests.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a thread looks for the next request.
const MOMENT: Duration = Duration::from_micros(50);
/// Requests without lingering after one that did not come in time.
const SKIPPED: u32 = 256;

/// Whether to linger.
#[derive(Debug, Default)]
pub(super) struct Linger {
    /// Requests until the next try.
    skip: AtomicU32,
}

impl Linger {
    /// Returns when there is something to read from `connection`, or a moment has passed; at once
    /// if that was in vain lately.
    pub(super) fn wait(&self, connection: impl AsFd) {
        let skip = self.skip.load(Relaxed);
        if skip > 0 {
            // Should two threads do this at once, the next try comes one request later.
            self.skip.store(skip - 1, Relaxed);
            return;
        }
        let start = Instant::now();
        let mut polled = [PollFd::new(&connection, PollFlags::IN)];
        let at_once = Timespec::default();
        while matches!(poll(&mut polled, Some(&at_once)), Ok(0)) && start.elapsed() < MOMENT {}
        if start.elapsed() >= MOMENT {
            self.skip.store(SKIPPED, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;

    #[test]
    fn moment_that_passed_in_vain_is_spent_again_only_after_many_requests() {
        let (connection, _no_request) = pipe().unwrap();
        let linger = Linger::default();
        for _ in 0..2 {
            linger.wait(&connection);
            for left in (0..SKIPPED).rev() {
                assert_eq!(linger.skip.load(Relaxed), left + 1);
                linger.wait(&connection);
            }
            assert_eq!(linger.skip.load(Relaxed), 0);
        }
    }
}
