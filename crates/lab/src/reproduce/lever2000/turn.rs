//! Measures the cost of a turn itself.
//!
//! In each turn, a thread for each user starts and ends. The measured times of kernels contain this cost. It is the
//! same for all kernels, so the ratios of the measured times are closer to 1 than without this cost.

use crate::concurrent::{Spent, run_concurrently};
use crate::statistics::median;
use serde::Serialize;
use std::time::Duration;

/// Number of turns that are measured.
pub(super) const TURNS: usize = 101;

/// The times of a turn without work: medians of several turns.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EmptyTurn {
    /// Number of threads.
    pub users: u32,
    pub elapsed_s: f64,
    /// Processor time of the whole process, in seconds.
    pub processor_s: f64,
}

impl EmptyTurn {
    pub(super) fn measure(users: u32) -> Self {
        let spent: Vec<Spent> = (0..TURNS)
            .map(|_| run_concurrently(users, |_| || ()).0)
            .collect();
        let seconds = |time: fn(&Spent) -> Duration| {
            let times: Vec<f64> = spent
                .iter()
                .map(|spent| time(spent).as_secs_f64())
                .collect();
            median(&times)
        };
        Self {
            users,
            elapsed_s: seconds(|spent| spent.wall),
            processor_s: seconds(|spent| spent.processor),
        }
    }
}
