//! Decides when threads with the scheduling policy `SCHED_IDLE` answer requests, so that a program and the
//! thread that answers its requests can share a processor.
//!
//! # Model
//! When a thread sends a reply, the scheduler wakes the program. The scheduler prefers to run the program on an
//! idle processor. The processor of the answering thread does not count as idle, although the thread will sleep
//! a few microseconds later. Therefore each request of a sequential program wakes a halted processor. On a
//! virtual machine, the wake-up took 70 to 150 µs, and the answer to the request took 10 µs.
//!
//! The scheduler treats a processor as idle if all its threads have the policy `SCHED_IDLE`. Therefore many
//! requests in short succession are answered by a thread that has this policy and runs on the processor of the
//! program.
//!
//! If another program computes on the same processor, a thread with this policy is delayed considerably.
//! Therefore a watcher, a separate thread, checks the thread with `SCHED_IDLE` once per [`TICK`]. If this
//! thread has answered nothing since the last check, normal threads take over. If it is also ready to run,
//! another program has delayed it. In that case, sharing stays off for a number of ticks, the penalty, which
//! doubles with each delay. Otherwise sharing can be on again after the next tick.

use rustix::thread::Pid;
use std::fs;
use std::time::Duration;

/// The interval between two checks. Normal threads take over from a delayed thread one or two checks later.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// The number of ticks without a request after which the watcher sleeps.
pub(super) const IDLE_TICKS: u32 = 50;
/// If a tick has at least this number of requests, a thread with `SCHED_IDLE` answers the next ones.
const BUSY_REQUESTS: u64 = 4;
/// The minimum and the maximum number of ticks for which normal threads answer after a delay.
const MIN_PENALTY: u32 = 16;
const MAX_PENALTY: u32 = 4096;

/// Whether a thread with `SCHED_IDLE` answers requests, and the state from which the watcher decides this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sharing {
    pub(super) is_on: bool,
    /// The number of further ticks for which sharing stays off.
    skip: u32,
    /// The value that `skip` gets at the next delay.
    penalty: u32,
}

impl Sharing {
    pub(super) const OFF: Self = Self {
        is_on: false,
        skip: 0,
        penalty: MIN_PENALTY,
    };

    /// Returns the state after a tick with `answered` requests. `is_ready` returns whether the thread with
    /// `SCHED_IDLE` is ready to run.
    pub(super) fn after_tick(self, answered: u64, is_ready: impl FnOnce() -> bool) -> Self {
        let mut next = self;
        if self.is_on {
            if answered > 0 {
                next.penalty = (self.penalty - 1).max(MIN_PENALTY);
            } else {
                next.is_on = false;
                if is_ready() {
                    next.skip = self.penalty;
                    next.penalty = (self.penalty * 2).min(MAX_PENALTY);
                }
            }
        } else if self.skip > 0 {
            next.skip -= 1;
        } else {
            next.is_on = answered >= BUSY_REQUESTS;
        }
        next
    }
}

/// Returns whether a thread of this process is ready to run or is running.
pub(super) fn is_ready(thread: Pid) -> bool {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    stat_field(&path, STATE).is_none_or(|state| state == "R")
}

/// Returns the processor on which a thread of any process runs, or last ran. Returns `None` if the thread has
/// ended or is not visible.
pub(super) fn processor_of(thread: u32) -> Option<usize> {
    stat_field(&format!("/proc/{thread}/stat"), PROCESSOR)?
        .parse()
        .ok()
}

/// Fields of a thread's `stat` file, counted from the field after its name. See `proc_pid_stat(5)`.
const STATE: usize = 0;
const PROCESSOR: usize = 36;

fn stat_field(path: &str, field: usize) -> Option<String> {
    let stat = fs::read_to_string(path).ok()?;
    // The name is in parentheses, and may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(field).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const ON: Sharing = Sharing {
        is_on: true,
        ..Sharing::OFF
    };

    fn never() -> bool {
        unreachable!("the state of the thread does not matter")
    }

    #[test]
    fn many_requests_switch_sharing_on() {
        assert_eq!(Sharing::OFF.after_tick(BUSY_REQUESTS, never), ON);
        assert_eq!(
            Sharing::OFF.after_tick(BUSY_REQUESTS - 1, never),
            Sharing::OFF
        );
        assert_eq!(ON.after_tick(1, never), ON);
    }

    #[test]
    fn tick_without_requests_switches_sharing_off_without_a_penalty() {
        assert_eq!(ON.after_tick(0, || false), Sharing::OFF);
    }

    #[test]
    fn sharing_stays_off_for_twice_as_long_after_each_delay() {
        let mut sharing = ON;
        let mut expected = MIN_PENALTY;
        for _ in 0..12 {
            sharing = sharing.after_tick(0, || true);
            for _ in 0..expected {
                assert!(!sharing.is_on && sharing.skip > 0);
                sharing = sharing.after_tick(100, never);
            }
            sharing = sharing.after_tick(100, never);
            assert!(sharing.is_on, "after {expected} ticks");
            expected = (expected * 2).min(MAX_PENALTY);
        }
        assert_eq!(expected, MAX_PENALTY);
    }

    #[test]
    fn penalty_decreases_while_the_thread_is_not_delayed() {
        let delayed = ON.after_tick(0, || true);
        let mut sharing = Sharing {
            is_on: true,
            ..delayed
        };
        for _ in 0..100 {
            sharing = sharing.after_tick(1, never);
        }
        assert_eq!(sharing.penalty, MIN_PENALTY);
    }

    #[test]
    fn running_thread_is_ready_and_sleeping_thread_is_not() {
        assert!(is_ready(rustix::thread::gettid()));
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeping = thread::spawn(move || {
            sender.send(rustix::thread::gettid()).unwrap();
            ended.recv().unwrap_err();
        });
        let thread = receiver.recv().unwrap();
        while is_ready(thread) {
            thread::yield_now();
        }
        drop(end);
        sleeping.join().unwrap();
    }

    #[test]
    fn processor_of_a_restricted_thread_is_the_one_it_may_use() {
        let restricted = || {
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| allowed.is_set(cpu));
            let mut one = rustix::thread::CpuSet::new();
            one.set(last.unwrap());
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            let this = rustix::thread::gettid().as_raw_nonzero().get();
            (processor_of(this.cast_unsigned()), last)
        };
        let (found, last) = thread::spawn(restricted).join().unwrap();
        assert_eq!(found, last);
        assert_eq!(processor_of(0), None, "no thread has the number 0");
    }
}
