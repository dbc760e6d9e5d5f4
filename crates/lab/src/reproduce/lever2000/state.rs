//! The finished rounds of a reproduction, with which it resumes.

use super::kernel_run::KernelRun;
use super::plan::Plan;
use super::size::Size;
use crate::reproduce::state;
use serde::{Deserialize, Serialize};

/// The typical number of rounds of the full size in a minute. A round of eight kernels counts as eight. The time
/// includes the creation and removal of homes.
const ROUNDS_PER_MINUTE: usize = 17;

/// The finished rounds, and the file that contains them.
pub type State = state::State<Size, FinishedRound>;

/// A finished round of all kernels of a table under a load.
#[derive(Debug, Serialize, Deserialize)]
pub struct FinishedRound {
    pub(super) table: u32,
    pub(super) users: u32,
    /// The plan, which all rounds of a load share.
    pub(super) plan: Plan,
    /// The share of each kernel.
    pub(super) runs: Vec<KernelRun>,
}

impl State {
    /// Returns the number of finished rounds. A round of eight kernels counts as eight.
    #[must_use]
    pub fn finished_rounds(&self) -> usize {
        self.parts().iter().map(|round| round.runs.len()).sum()
    }

    /// Returns the estimated duration of the rounds that are not finished, in minutes.
    #[must_use]
    pub fn estimated_minutes(&self) -> usize {
        let left = self.size().total_rounds() - self.finished_rounds();
        left / ROUNDS_PER_MINUTE
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
        assert_eq!(state.finished_rounds(), 6);
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
}
