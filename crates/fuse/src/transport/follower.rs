//! The follower: a receiver that runs on the processor of the program whose requests it answers.
//!
//! It has the scheduling policy `SCHED_IDLE` as long as it exists, because returning to the normal policy requires
//! a privilege. [`Parking`](super::parking) decides when it receives requests.
//!
//! If another program computes on the same processor, it delays the follower, and the request that the follower
//! answers, by some milliseconds. Threads that need a lock that the follower holds are delayed as well.

use super::ring::set_idle_policy;
use super::sharing::is_ready;
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

/// The thread of the follower, and the processors on which it runs.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    thread: Pid,
    /// The processors on which the thread may run.
    allowed: CpuSet,
    /// The processor to which the thread is restricted.
    processor: Option<usize>,
}

impl Follower {
    /// Makes the current thread the follower.
    ///
    /// # Errors
    /// The policy cannot be set. Then nothing has changed.
    pub(super) fn this_thread() -> Result<Self, Errno> {
        let thread = gettid();
        let allowed = sched_getaffinity(None)?;
        set_idle_policy(thread, true)?;
        Ok(Self {
            thread,
            allowed,
            processor: None,
        })
    }

    /// Returns whether the follower is ready to run, or running.
    pub(super) fn is_ready(&self) -> bool {
        is_ready(self.thread)
    }

    /// Restricts the follower to a processor. Does nothing if it may not run there.
    pub(super) fn move_to(&mut self, processor: usize) {
        let is_allowed = processor < CpuSet::MAX_CPU && self.allowed.is_set(processor);
        if is_allowed && self.processor != Some(processor) {
            let mut set = CpuSet::new();
            set.set(processor);
            self.run_on(&set);
            self.processor = Some(processor);
        }
    }

    /// Lets the follower run on all allowed processors.
    pub(super) fn release(&mut self) {
        if self.processor.take().is_some() {
            self.run_on(&self.allowed);
        }
    }

    fn run_on(&self, set: &CpuSet) {
        if let Err(error) = sched_setaffinity(Some(self.thread), set) {
            tracing::debug!("cannot choose the processors of a thread: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follower_runs_on_one_processor_until_it_is_released() {
        let follows = || {
            let before = sched_getaffinity(None).unwrap();
            let last = (0..CpuSet::MAX_CPU).rfind(|&number| before.is_set(number));
            let mut follower = Follower::this_thread().unwrap();
            follower.move_to(last.unwrap());
            let restricted = sched_getaffinity(None).unwrap();
            assert!(restricted.count() == 1 && restricted.is_set(last.unwrap()));
            follower.move_to(CpuSet::MAX_CPU);
            assert_eq!(sched_getaffinity(None).unwrap(), restricted, "not allowed");
            follower.release();
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        };
        std::thread::spawn(follows).join().unwrap();
    }
}
