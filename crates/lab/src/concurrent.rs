//! Starts threads at the same time.

use rustix::time::{ClockId, clock_gettime};
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// The time that functions took from their common start until the last one finished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub wall: Duration,
    /// Processor time of all threads of this process.
    pub processor: Duration,
}

/// Calls `prepare` in each of `processes` threads, then starts the returned functions at the same time.
/// Returns the time that they took, and the results.
pub(crate) fn run_concurrently<T: Send, W: FnOnce() -> T>(
    processes: u32,
    prepare: impl Fn(u32) -> W + Sync,
) -> (Spent, Vec<T>) {
    let gate = Barrier::new(processes as usize + 1);
    let (gate, prepare) = (&gate, &prepare);
    thread::scope(|scope| {
        let spawn = |process| {
            scope.spawn(move || {
                let work = prepare(process);
                // At the first wait, all threads are ready. At the second, the clocks have been read, and
                // all threads start together.
                gate.wait();
                gate.wait();
                work()
            })
        };
        let threads: Vec<_> = (0..processes).map(spawn).collect();
        gate.wait();
        let (start, processor) = (Instant::now(), processor_time());
        gate.wait();
        let done = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect();
        let spent = Spent {
            wall: start.elapsed(),
            processor: processor_time().saturating_sub(processor),
        };
        (spent, done)
    })
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // The processor time of a process is never negative, so the conversion succeeds.
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_all_threads_counts_as_processor_time() {
        // Each thread works until it has used this much processor time itself.
        const EACH: Duration = Duration::from_millis(5);
        let thread_time = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            Duration::try_from(time).unwrap_or_default()
        };
        let (spent, done) = run_concurrently(3, |number| {
            move || {
                let end = thread_time() + EACH;
                while thread_time() < end {}
                number
            }
        });
        assert_eq!(done, [0, 1, 2]);
        assert!(spent.processor >= 3 * EACH, "{spent:?}");
    }
}
