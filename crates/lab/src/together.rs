//! Threads that start at once.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Lets `prepare` make the work of each of `processes` threads, starts all of it at once, and
/// returns how long it took to the last one's end, and what each returned.
pub(crate) fn together<T: Send, W: FnOnce() -> T>(
    processes: u32,
    prepare: impl Fn(u32) -> W + Sync,
) -> (Duration, Vec<T>) {
    let gate = Barrier::new(processes as usize + 1);
    let (gate, prepare) = (&gate, &prepare);
    thread::scope(|scope| {
        let spawn = |process| {
            scope.spawn(move || {
                let work = prepare(process);
                // All are ready, and then all go.
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
