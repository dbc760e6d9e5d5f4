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

/// The runs of a kernel under one load, in order. Each run consists of the same number of rounds. All kernels of a
/// table take part in the same rounds, so that the rounds of two kernels can be compared in pairs.
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
    /// Duration of each round in seconds.
    pub round_elapsed_s: Vec<f64>,
    /// Processor time of each round in seconds, of all processors.
    pub round_processor_s: Vec<f64>,
    #[serde(skip)]
    pub average: Average,
}

/// The times of one kernel in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTimes {
    /// Number of scripts, which is the same in all rounds.
    pub scripts: u64,
    pub elapsed_s: f64,
    pub processor_s: f64,
}

impl Runs {
    /// Returns the runs of `users` users, each with `run_rounds` of the rounds.
    pub(super) fn of(
        users: u32,
        average: Average,
        run_rounds: usize,
        rounds: &[RoundTimes],
    ) -> Self {
        let of_rounds = |time_s: fn(&RoundTimes) -> f64| rounds.iter().map(time_s).collect();
        let of_runs = |time_s: fn(&RoundTimes) -> f64| {
            let runs = rounds.chunks(run_rounds.max(1));
            runs.map(|rounds| rounds.iter().map(time_s).sum()).collect()
        };
        let scripts = rounds.first().map_or(0, |round| round.scripts);
        Self {
            users,
            scripts: scripts * run_rounds as u64,
            elapsed_s: of_runs(|round| round.elapsed_s),
            processor_s: of_runs(|round| round.processor_s),
            round_elapsed_s: of_rounds(|round| round.elapsed_s),
            round_processor_s: of_rounds(|round| round.processor_s),
            average,
        }
    }

    /// Returns the scripts per hour of each run.
    pub fn throughputs(&self) -> Vec<f64> {
        scripts_per_hour(self.scripts, &self.elapsed_s)
    }

    /// Returns the scripts per hour of processor time of each run.
    pub fn processor_throughputs(&self) -> Vec<f64> {
        scripts_per_hour(self.scripts, &self.processor_s)
    }

    /// Returns the scripts per hour of each round.
    pub fn round_throughputs(&self) -> Vec<f64> {
        scripts_per_hour(self.round_scripts(), &self.round_elapsed_s)
    }

    /// Returns the scripts per hour of processor time of each round.
    pub fn round_processor_throughputs(&self) -> Vec<f64> {
        scripts_per_hour(self.round_scripts(), &self.round_processor_s)
    }

    /// Returns the times of all rounds.
    pub(super) fn rounds(&self) -> impl Iterator<Item = RoundTimes> {
        let times = self.round_elapsed_s.iter().zip(&self.round_processor_s);
        times.map(|(elapsed_s, processor_s)| RoundTimes {
            scripts: self.round_scripts(),
            elapsed_s: *elapsed_s,
            processor_s: *processor_s,
        })
    }

    /// Returns these runs with other times of their rounds.
    pub(super) fn with_rounds(&self, rounds: &[RoundTimes]) -> Self {
        let run_rounds = rounds.len() / self.elapsed_s.len().max(1);
        Self::of(self.users, self.average, run_rounds, rounds)
    }

    /// Returns the number of scripts of each round.
    fn round_scripts(&self) -> u64 {
        let runs = self.elapsed_s.len() as u64;
        let rounds = self.round_elapsed_s.len() as u64;
        self.scripts * runs / rounds.max(1)
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

/// Returns the scripts per hour of repetitions with `scripts` scripts each.
fn scripts_per_hour(scripts: u64, times_s: &[f64]) -> Vec<f64> {
    let scripts_hour = |time_s: &f64| as_f64(scripts) * 3600.0 / time_s;
    times_s.iter().map(scripts_hour).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(elapsed_s: &[f64]) -> Vec<RoundTimes> {
        let round = |elapsed_s: &f64| RoundTimes {
            scripts: 16,
            elapsed_s: *elapsed_s,
            processor_s: elapsed_s * 2.0,
        };
        elapsed_s.iter().map(round).collect()
    }

    fn runs(elapsed_s: &[f64], average: Average) -> Runs {
        Runs::of(16, average, 1, &rounds(elapsed_s))
    }

    #[test]
    fn run_is_the_sum_of_its_rounds() {
        let runs = Runs::of(16, Average::All, 2, &rounds(&[57.6, 28.8, 28.8, 28.8]));
        assert_eq!((runs.scripts, runs.elapsed_s.len()), (32, 2));
        let run = |time_s| 32.0 * 3600.0 / time_s;
        assert_eq!(runs.throughputs(), [run(86.4), run(57.6)]);
        assert_eq!(runs.processor_throughputs(), [run(172.8), run(115.2)]);
        assert_eq!(runs.round_throughputs(), [1000.0, 2000.0, 2000.0, 2000.0]);
        assert_eq!(runs.round_processor_throughputs()[..2], [500.0, 1000.0]);
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
