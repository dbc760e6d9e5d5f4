//! Starts threads at the same time.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Calls `prepare` in each of `processes` threads, then starts the returned functions at the same time.
/// Returns the time until the last function finished, and the results.
pub(crate) fn run_concurrently<T: Send, W: FnOnce() -> T>(
    processes: u32,
    prepare: impl Fn(u32) -> W + Sync,
) -> (Duration, Vec<T>) {
    let gate = Barrier::new(processes as usize + 1);
    let (gate, prepare) = (&gate, &prepare);
    thread::scope(|scope| {
        let spawn = |process| {
            scope.spawn(move || {
                let work = prepare(process);
                // All threads are ready and start together.
                gate.wait();
                gate.wait();
                work()
            })
        };
        let threads: Vec<_> = (0..processes).map(spawn).collect();
        gate.wait();
        let start = Instant::now();
        gate.wait();
        let done = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect();
        (start.elapsed(), done)
    })
}
