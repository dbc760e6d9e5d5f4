//! The threads of a turn, and the cost of a turn itself.
//!
//! In each turn, threads wake, execute a part of the work of each user, and wait again. The measured times of kernels
//! contain the cost of waking. It is the same for all kernels, so the ratios of the measured times are closer to 1 than
//! without this cost.

use crate::concurrent::{Spent, with_threads};
use crate::statistics::median;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Number of turns that are measured.
pub(super) const TURNS: usize = 101;

/// The maximum number of threads of a turn. In the caches, 64 threads have counters of their own; further threads would
/// contend for shared ones. The others belong to the main thread and, on two processors, to those that create homes.
const MAX_THREADS: u32 = 60;

/// Returns the number of threads that execute a turn of `users` users. If there are fewer threads than users, a thread
/// executes the parts of several users, one after the other.
pub(super) fn threads_of(users: u32) -> u32 {
    users.min(MAX_THREADS)
}

/// The times of a turn without work: medians of several turns.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct EmptyTurn {
    /// Number of users.
    pub users: u32,
    /// Number of threads.
    pub threads: u32,
    pub elapsed_s: f64,
    /// Processor time of the whole process, in seconds.
    pub processor_s: f64,
}

impl EmptyTurn {
    pub(super) fn measure(users: u32) -> Self {
        let threads = threads_of(users);
        let spent: Vec<Spent> = with_threads(
            threads,
            |_, ()| (),
            |turn| (0..TURNS).map(|_| turn(()).0).collect(),
        );
        let seconds = |time: fn(&Spent) -> Duration| {
            let times: Vec<f64> = spent
                .iter()
                .map(|spent| time(spent).as_secs_f64())
                .collect();
            median(&times)
        };
        Self {
            users,
            threads,
            elapsed_s: seconds(|spent| spent.wall),
            processor_s: seconds(|spent| spent.processor),
        }
    }
}
