//! Measures how often per second threads perform an operation.

use std::sync::Barrier;

/// A pseudo-random sequence from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Runs `work` on `threads` threads at the same time. Returns the operations per second of all
/// threads together, in millions. The rate is computed from processor time, because wall time would
/// include other processes of the machine.
#[expect(clippy::cast_precision_loss, reason = "for display")]
pub fn rate(threads: u64, operations: u64, work: impl Fn(u64) + Sync) -> f64 {
    let barrier = Barrier::new(usize::try_from(threads).unwrap_or(1));
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    let start = processor_seconds();
                    work(thread);
                    operations as f64 / 1e6 / (processor_seconds() - start)
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|h| h.join().expect("a worker"))
            .sum()
    })
}

/// Returns the processor time of this thread.
#[expect(clippy::cast_precision_loss, reason = "for display")]
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
