//! The finished rounds of a reproduction, with which it resumes, and how long the others take.
//!
//! # Model
//! The typical duration of a round depends on its table. Once some rounds are finished, the estimate of the others is
//! multiplied by the ratio of the measured to the typical duration of the finished ones.

use super::kernel_run::KernelRun;
use super::kernels::{PublishedTable, TABLES};
use super::plan::Plan;
use super::size::Size;
use crate::reproduce::state;
use crate::run_report::as_f64;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The finished rounds, and the file that contains them.
pub type State = state::State<Size, FinishedRound>;

/// A finished round of all kernels of a table under a load.
#[derive(Debug, Serialize, Deserialize)]
pub struct FinishedRound {
    pub(super) table: u32,
    pub(super) users: u32,
    /// The plan, which all rounds of a load share.
    pub(super) plan: Plan,
    /// The duration of the round in seconds, with all that is not measured.
    pub(super) took_s: f64,
    /// The share of each kernel.
    pub(super) runs: Vec<KernelRun>,
}

/// How far a reproduction is. A round of eight kernels counts as eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of finished rounds.
    pub finished: usize,
    /// Number of all rounds. It increases if runs are shorter than their minimum duration.
    pub rounds: usize,
    /// The estimated duration of the other rounds.
    pub left: Duration,
}

impl State {
    /// Returns how far the reproduction is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let (mut finished_rounds, mut all_rounds) = (0, 0);
        let (mut took_s, mut typical_s, mut left_s) = (0.0, 0.0, 0.0);
        for table in &TABLES {
            let round_s = f64::from(table.round_s) / f64::from(self.size().divisor);
            for users in table.loads {
                let users = self.size().users(*users);
                let wanted = self.wanted_rounds(table, users);
                let mut left = wanted;
                for round in self.rounds(table.number, users) {
                    left -= 1;
                    took_s += round.took_s;
                    typical_s += round_s;
                }
                finished_rounds += (wanted - left) * table.kernels.len();
                all_rounds += wanted * table.kernels.len();
                left_s += as_f64(left as u64) * round_s;
            }
        }
        let speed = if typical_s > 0.0 {
            took_s / typical_s
        } else {
            1.0
        };
        Progress {
            finished: finished_rounds,
            rounds: all_rounds,
            left: Duration::try_from_secs_f64(speed * left_s).unwrap_or_default(),
        }
    }

    /// Returns the number of rounds of a load: the planned number or, if more are finished, the next number with which
    /// all runs have equally many rounds.
    pub(super) fn wanted_rounds(&self, table: &PublishedTable, users: u32) -> usize {
        let finished = self.rounds(table.number, users).count();
        let runs = self.size().runs(table) as usize;
        self.size()
            .rounds(table)
            .max(finished.next_multiple_of(runs.max(1)))
    }

    /// Returns the finished rounds of a table under a load.
    pub(super) fn rounds(
        &self,
        table: u32,
        users: u32,
    ) -> impl Iterator<Item = &FinishedRound> + Clone {
        let rounds = self.parts().iter();
        rounds.filter(move |round| (round.table, round.users) == (table, users))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(table: u32, users: u32, passes: u32) -> FinishedRound {
        let text =
            r#"{"scripts":1,"elapsed_s":0.1,"processor_s":0.3,"device_reads":2,"caches":[]}"#;
        let run = || serde_json::from_str(text).unwrap();
        FinishedRound {
            table,
            users,
            plan: Plan { passes, parts: 2 },
            took_s: 52.0,
            runs: vec![run(), run()],
        }
    }

    #[test]
    fn stored_rounds_are_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let (mut state, _) = State::open(Size::full(1), &path).unwrap();
        for (users, passes) in [(16, 7), (16, 7), (32, 5)] {
            state.add(round(1, users, passes)).unwrap();
        }
        let (state, found) = State::open(Size::full(1), &path).unwrap();
        assert_eq!((found, state.resumed()), (state::Found::Parts, 1));
        assert_eq!(state.progress().finished, 3 * 8);
        assert_eq!(state.rounds(1, 16).count(), 2);
        let other = state.rounds(1, 32).next().unwrap();
        assert_eq!(other.plan.passes, 5);
        assert_eq!(state.rounds(2, 16).count(), 0);
        let stored = state.rounds(1, 16).nth(1).unwrap();
        assert_eq!(
            serde_json::to_string(stored).unwrap(),
            serde_json::to_string(&round(1, 16, 7)).unwrap()
        );
    }

    #[test]
    fn estimate_is_within_the_permitted_time_and_follows_finished_rounds() {
        let mut state = State::new(Size::full(1)).unwrap();
        let start = state.progress();
        assert_eq!(start.finished, 0);
        let minutes = start.left.as_secs() / 60;
        assert!((120..150).contains(&minutes), "{minutes} minutes");
        // This round took twice the typical time.
        state.add(round(1, 16, 7)).unwrap();
        let next = state.progress();
        assert_eq!((next.finished, next.rounds), (8, start.rounds));
        let expected_s = 2.0 * (start.left.as_secs_f64() - 26.0);
        assert!(
            (next.left.as_secs_f64() - expected_s).abs() < 1e-6,
            "{next:?}"
        );
    }

    #[test]
    fn additional_round_is_followed_by_one_for_each_other_run() {
        let mut state = State::new(Size::full(1)).unwrap();
        let planned = state.progress().rounds;
        let (table, users) = (&TABLES[1], 128);
        assert_eq!(state.wanted_rounds(table, users), 35);
        for _ in 0..36 {
            state.add(round(2, users, 1)).unwrap();
        }
        assert_eq!(state.wanted_rounds(table, users), 40);
        assert_eq!(state.progress().rounds, planned + 5 * table.kernels.len());
    }
}
