//! Lets a thread poll briefly for the next request before it sleeps.
//!
//! # Model
//! The method corresponds to halt polling in virtual machines. A program that works sequentially sends its
//! next request some microseconds after the last reply. Waking a sleeping thread takes longer than most
//! replies, especially on a virtual processor, which halts when it is idle.
//!
//! Polling has no benefit if no request arrives in time, which also happens if other threads need the
//! processor. After such a failed poll, the thread does not poll for a number of requests. This number
//! doubles with each failure. Therefore threads rarely poll on a loaded machine, and usually poll if
//! processors are idle.
//!
//! # Cost
//! Polling uses at most one [`POLL_TIME`] of processor time for each request. If polling never succeeds,
//! threads eventually poll for only one in [`MAX_SKIPPED`] requests.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The maximum time for which a thread polls for the next request.
const POLL_TIME: Duration = Duration::from_micros(50);
/// The minimum and the maximum number of requests without polling after a failed poll.
const MIN_SKIPPED: u32 = 256;
const MAX_SKIPPED: u32 = 1 << 16;

/// The state that decides whether a thread polls. Usually only one thread uses it at a time. If two threads
/// use it at once, a count may be wrong by one, which does no harm.
#[derive(Debug)]
pub(super) struct Linger {
    /// The number of requests for which no thread polls.
    skip: AtomicU32,
    /// The value of `skip` after the next failed poll.
    penalty: AtomicU32,
}

impl Default for Linger {
    fn default() -> Self {
        Self {
            skip: AtomicU32::new(0),
            penalty: AtomicU32::new(MIN_SKIPPED),
        }
    }
}

impl Linger {
    /// Polls until `connection` is readable or a [`POLL_TIME`] has passed. If polling is switched off after a
    /// failed poll, returns immediately.
    pub(super) fn wait(&self, connection: impl AsFd) {
        let skip = self.skip.load(Relaxed);
        if skip > 0 {
            self.skip.store(skip - 1, Relaxed);
            return;
        }
        let start = Instant::now();
        let mut polled = [PollFd::new(&connection, PollFlags::IN)];
        let at_once = Timespec::default();
        while matches!(poll(&mut polled, Some(&at_once)), Ok(0)) && start.elapsed() < POLL_TIME {}
        self.count(start.elapsed() < POLL_TIME);
    }

    /// Records the result of a poll: whether a request arrived in time.
    fn count(&self, arrived: bool) {
        let penalty = self.penalty.load(Relaxed);
        let next = if arrived {
            penalty - 1
        } else {
            self.skip.store(penalty, Relaxed);
            penalty * 2
        };
        self.penalty
            .store(next.clamp(MIN_SKIPPED, MAX_SKIPPED), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;

    #[test]
    fn failed_poll_is_repeated_only_after_many_requests() {
        let (connection, _no_request) = pipe().unwrap();
        let linger = Linger::default();
        for skipped in [MIN_SKIPPED, 2 * MIN_SKIPPED] {
            linger.wait(&connection);
            for left in (0..skipped).rev() {
                assert_eq!(linger.skip.load(Relaxed), left + 1);
                linger.wait(&connection);
            }
            assert_eq!(linger.skip.load(Relaxed), 0);
        }
    }

    #[test]
    fn penalty_doubles_up_to_the_maximum_and_decreases_after_success() {
        let linger = Linger::default();
        linger.count(true);
        assert_eq!(linger.penalty.load(Relaxed), MIN_SKIPPED);
        for _ in 0..20 {
            linger.count(false);
        }
        assert_eq!(linger.skip.load(Relaxed), MAX_SKIPPED);
        linger.count(true);
        assert_eq!(linger.penalty.load(Relaxed), MAX_SKIPPED - 1);
    }
}
