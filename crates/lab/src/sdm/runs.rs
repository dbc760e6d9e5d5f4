//! Runs of one load, in scripts per hour.
//!
//! # Model
//! As in Lever 2000, the throughput is the number of concurrent scripts divided by the time until the last of them
//! finished. The first run warms the caches, so the statistics are computed with and without it.

use crate::statistics::Figures;
use serde::Serialize;

/// Runs with a given number of concurrent scripts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Runs {
    /// Number of concurrent scripts, one for each user.
    pub users: u32,
    /// Duration of each run in seconds.
    pub elapsed_s: Vec<f64>,
}

impl Runs {
    /// Creates a load without runs.
    pub fn none(users: u32) -> Self {
        Self {
            users,
            elapsed_s: Vec::new(),
        }
    }

    /// Returns the scripts per hour of each run.
    pub fn throughputs(&self) -> Vec<f64> {
        let scripts_hour = |elapsed_s: &f64| f64::from(self.users) * 3600.0 / elapsed_s;
        self.elapsed_s.iter().map(scripts_hour).collect()
    }

    /// Returns the mean and the deviation of the scripts per hour of all runs.
    pub fn all(&self) -> Figures {
        Figures::of(&self.throughputs())
    }

    /// Returns the mean and the deviation of all runs except the first; `None` if there is only one run.
    pub fn without_first(&self) -> Option<Figures> {
        Figures::without_first(&self.throughputs())
    }

    /// Returns the scripts per hour of the fastest run.
    pub fn best(&self) -> f64 {
        self.throughputs().into_iter().fold(0.0, f64::max)
    }

    /// Returns the total duration of all runs in seconds.
    pub fn total_s(&self) -> f64 {
        self.elapsed_s.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_scripts_per_hour() {
        let runs = Runs {
            users: 16,
            elapsed_s: vec![57.6, 28.8, 28.8],
        };
        assert_eq!(runs.throughputs(), [1000.0, 2000.0, 2000.0]);
        assert!((runs.all().mean - 5000.0 / 3.0).abs() < 1e-9);
        assert_eq!(
            runs.without_first().unwrap(),
            Figures {
                mean: 2000.0,
                s: Some(0.0)
            }
        );
        assert!((runs.best() - 2000.0).abs() < 1e-9);
    }

    #[test]
    fn single_run_has_no_deviation() {
        let runs = Runs {
            users: 1,
            elapsed_s: vec![3600.0],
        };
        assert_eq!(runs.all(), Figures { mean: 1.0, s: None });
        assert_eq!(runs.without_first(), None);
    }
}
