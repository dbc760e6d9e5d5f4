//! The processors on which a thread may run.

use rustix::process::getpid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

/// Lets this thread run on all processors that the main thread of the process may use. A new thread inherits
/// the processors of the thread that starts it, and that thread may be restricted to one processor. If this
/// call fails, the thread keeps its processors.
pub fn run_on_all_processors() {
    let set = sched_getaffinity(Some(getpid())).and_then(|all| sched_setaffinity(None, &all));
    if let Err(error) = set {
        tracing::debug!("cannot choose the processors of a thread: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::CpuSet;

    #[test]
    fn restriction_of_the_starting_thread_is_lifted() {
        let all = sched_getaffinity(Some(getpid())).unwrap();
        let restricted = move || {
            let first = (0..CpuSet::MAX_CPU).find(|&processor| all.is_set(processor));
            let mut one = CpuSet::new();
            one.set(first.unwrap());
            sched_setaffinity(None, &one).unwrap();
            let started = std::thread::spawn(|| {
                run_on_all_processors();
                sched_getaffinity(None).unwrap()
            });
            assert_eq!(started.join().unwrap(), all);
        };
        std::thread::spawn(restricted).join().unwrap();
    }
}
