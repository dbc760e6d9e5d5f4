//! Executes functions in several threads at the same time, and measures how long they take.

use rustix::time::{ClockId, clock_gettime};
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The time that functions took from their common start until the last one finished.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub wall: Duration,
    /// Processor time of all threads of this process.
    pub processor: Duration,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.processor += other.processor;
    }
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
        timed(|| {
            gate.wait();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        })
    })
}

/// Calls `conduct` with a function that executes a job in each of `processes` threads, all at the same time, and that
/// returns the time that the job took, and the results in any order.
///
/// Each thread calls `work` with its number, from 0, and the job. The threads live until `conduct` returns. Therefore
/// the time of a job contains neither their start nor their end.
pub(crate) fn with_threads<J, T, R>(
    processes: u32,
    work: impl Fn(u32, J) -> T + Sync,
    conduct: impl FnOnce(&mut dyn FnMut(J) -> (Spent, Vec<T>)) -> R,
) -> R
where
    J: Copy + Send,
    T: Send,
{
    let work = &work;
    thread::scope(|scope| {
        let (starting, starts) = mpsc::channel::<()>();
        let (end, ends) = mpsc::channel::<thread::Result<T>>();
        let start = |process| {
            let (job, jobs) = mpsc::channel::<J>();
            let (starting, end) = (starting.clone(), end.clone());
            scope.spawn(move || {
                drop(starting);
                for job in jobs {
                    // Each job has an end in each thread, even if it panics: `ends` waits for all of them.
                    let ended = catch_unwind(AssertUnwindSafe(|| work(process, job)));
                    if end.send(ended).is_err() {
                        return;
                    }
                }
            });
            job
        };
        let threads: Vec<mpsc::Sender<J>> = (0..processes).map(start).collect();
        drop(starting);
        // Nothing is sent, so this returns when all threads have dropped their senders.
        let _ = starts.recv();
        conduct(&mut |job| {
            timed(|| {
                for thread in &threads {
                    thread.send(job).expect("threads wait for jobs");
                }
                let ends = ends.iter().take(threads.len());
                ends.map(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
                    .collect()
            })
        })
    })
}

/// Calls `work`. Returns the time that this process spent meanwhile, and the result.
fn timed<T>(work: impl FnOnce() -> T) -> (Spent, T) {
    let (start, processor) = (Instant::now(), processor_time());
    let done = work();
    let spent = Spent {
        wall: start.elapsed(),
        processor: processor_time().saturating_sub(processor),
    };
    (spent, done)
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

    /// Each thread works until it has used this much processor time itself.
    const EACH: Duration = Duration::from_millis(5);

    fn work() {
        let thread_time = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            Duration::try_from(time).unwrap_or_default()
        };
        let end = thread_time() + EACH;
        while thread_time() < end {}
    }

    #[test]
    fn work_of_all_threads_counts_as_processor_time() {
        let (spent, done) = run_concurrently(3, |number| {
            move || {
                work();
                number
            }
        });
        assert_eq!(done, [0, 1, 2]);
        assert!(spent.processor >= 3 * EACH, "{spent:?}");
    }

    #[test]
    fn each_job_is_executed_by_each_thread() {
        let execute = |number, job: u32| {
            work();
            (job, number, thread::current().id())
        };
        let (spent, first, second) = with_threads(3, execute, |execute| {
            let (mut spent, first) = execute(1);
            let (more, second) = execute(2);
            spent += more;
            (spent, first, second)
        });
        assert!(spent.processor >= 6 * EACH, "{spent:?}");
        let sorted = |mut ends: Vec<(u32, u32, thread::ThreadId)>| {
            ends.sort_by_key(|(_, number, _)| *number);
            ends
        };
        let (first, second) = (sorted(first), sorted(second));
        for (number, (one, other)) in (0..).zip(first.iter().zip(&second)) {
            assert_eq!((one.0, one.1), (1, number));
            assert_eq!((other.0, other.1), (2, number));
            assert_eq!(one.2, other.2, "the same thread executes both jobs");
        }
        assert_eq!((first.len(), second.len()), (3, 3));
    }

    #[test]
    #[should_panic(expected = "job 2")]
    fn panic_of_one_thread_ends_the_others() {
        with_threads(
            3,
            |number, job| assert!(number != 1 || job != 2, "job {job}"),
            |execute| {
                for job in 0..3 {
                    execute(job);
                }
            },
        );
    }
}
