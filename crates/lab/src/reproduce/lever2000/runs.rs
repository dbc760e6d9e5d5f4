//! The runs of a kernel under one load.
//!
//! # Model
//! As in Lever 2000, the throughput of a run is the number of its scripts divided by its duration. In the document,
//! the first run warms the caches, so the statistics are computed with and without it. The statistics of Table 1
//! omit the fastest and the slowest run instead. Here the caches are warm before the first run.

use super::kernels::Average;
use crate::run_report::as_f64;
use crate::statistics::Figures;
use serde::Serialize;

/// The runs of a kernel under one load, in order. Run number `n` of each kernel of a table was measured in the
/// same round, so that runs of two kernels can be compared in pairs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Runs {
    /// Number of concurrent scripts, one for each user.
    pub users: u32,
    /// Number of scripts of each run, in all of its passes.
    pub scripts: u64,
    /// Duration of each run in seconds.
    pub elapsed_s: Vec<f64>,
    /// Processor time of each run in seconds, of all processors.
    pub processor_s: Vec<f64>,
    #[serde(skip)]
    pub average: Average,
}

impl Runs {
    /// Returns the scripts per hour of each run.
    pub fn throughputs(&self) -> Vec<f64> {
        self.scripts_per_hour(&self.elapsed_s)
    }

    /// Returns the scripts per hour of processor time of each run.
    pub fn processor_throughputs(&self) -> Vec<f64> {
        self.scripts_per_hour(&self.processor_s)
    }

    fn scripts_per_hour(&self, times_s: &[f64]) -> Vec<f64> {
        let scripts = as_f64(self.scripts);
        let scripts_hour = |time_s: &f64| scripts * 3600.0 / time_s;
        times_s.iter().map(scripts_hour).collect()
    }

    /// Returns the mean and the deviation of the scripts per hour of the runs that the document averages.
    pub fn all(&self) -> Figures {
        let mut throughputs = self.throughputs();
        match self.average {
            Average::Middle if throughputs.len() > 2 => {
                throughputs.sort_by(f64::total_cmp);
                Figures::of(&throughputs[1..throughputs.len() - 1])
            }
            _ => Figures::of(&throughputs),
        }
    }

    /// Returns the mean and the deviation of all runs except the first. Returns `None` if there is only one
    /// run, or if the document omits other runs.
    pub fn without_first(&self) -> Option<Figures> {
        if self.average == Average::Middle {
            return None;
        }
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

    fn runs(elapsed_s: &[f64], average: Average) -> Runs {
        Runs {
            users: 16,
            scripts: 16,
            elapsed_s: elapsed_s.to_vec(),
            processor_s: elapsed_s.iter().map(|time_s| time_s * 2.0).collect(),
            average,
        }
    }

    #[test]
    fn throughput_is_scripts_per_hour_of_wall_or_processor_time() {
        let runs = runs(&[57.6, 28.8, 28.8], Average::All);
        assert_eq!(runs.throughputs(), [1000.0, 2000.0, 2000.0]);
        assert_eq!(runs.processor_throughputs(), [500.0, 1000.0, 1000.0]);
        assert!((runs.all().mean - 5000.0 / 3.0).abs() < 1e-9);
        let steady = runs.without_first().unwrap();
        assert_eq!((steady.mean, steady.s), (2000.0, Some(0.0)));
        assert!((runs.best() - 2000.0).abs() < 1e-9);
        assert!((runs.total_s() - 115.2).abs() < 1e-9);
    }

    #[test]
    fn middle_runs_are_without_the_fastest_and_the_slowest() {
        let runs = runs(&[28.8, 1.0, 28.8, 28.8, 28.8, 28.8, 99.0], Average::Middle);
        assert_eq!((runs.all().mean, runs.all().s), (2000.0, Some(0.0)));
        assert_eq!(runs.without_first(), None);
    }
}
