//! Many sequences, and the failures among them.

use super::{Limits, Mix, Step, Tally, sequence};
use crate::crash::caught;
use crate::operation::{Listing, kind_of_failure, shrink};
use crate::seed::{SEED_VARIABLE, Seed};
use std::fmt::Write as _;

/// The environment variable that sets the number of sequences.
const SEQUENCES_VARIABLE: &str = "LARDER_SEQUENCES";
/// The default number of sequences.
const SEQUENCES: usize = 3;
/// The maximum number of sequences that are tried to shorten a failing one.
const SHRINK_ATTEMPTS: u32 = 200;

/// Sequences, and their results.
#[derive(Clone, Debug)]
pub struct Campaign<F> {
    name: String,
    mix: Mix,
    limits: Limits,
    attempt: F,
    seeds: usize,
    failures: Vec<(Seed, String)>,
    /// Counts of the calls of the sequences that did not fail.
    pub tally: Tally,
}

impl<F: Fn(&[Step]) -> Result<Tally, String>> Campaign<F> {
    /// Runs `attempt` on the sequences that are derived from `default_seed`, or on the one sequence whose
    /// seed is in the environment.
    ///
    /// # Panics
    /// Panics if the environment variables are not numbers.
    pub fn run(name: &str, default_seed: u64, mix: Mix, limits: Limits, attempt: F) -> Self {
        let count = std::env::var(SEQUENCES_VARIABLE).map_or(SEQUENCES, |count| {
            count
                .parse()
                .unwrap_or_else(|_| panic!("{SEQUENCES_VARIABLE}={count} is not a number"))
        });
        let seeds: Vec<_> = Seed::parts_from_environment(default_seed)
            .take(count)
            .collect();
        let mut campaign = Self {
            name: name.to_owned(),
            mix,
            limits,
            attempt,
            seeds: seeds.len(),
            failures: Vec::new(),
            tally: Tally::default(),
        };
        for seed in seeds {
            match campaign.attempt(&sequence(seed, mix, limits)) {
                Ok(tally) => campaign.tally.add(tally),
                Err(what) => campaign.failures.push((seed, what)),
            }
        }
        campaign
    }

    fn attempt(&self, steps: &[Step]) -> Result<Tally, String> {
        caught(|| (self.attempt)(steps))
    }

    /// Reports how many sequences matched the model, and how the others differed.
    #[must_use]
    pub fn summary(&self) -> String {
        let matching = self.seeds - self.failures.len();
        let mut text = format!(
            "{}: {matching} of {} sequences match the model ({})",
            self.name, self.seeds, self.tally
        );
        for (seed, what) in &self.failures {
            let _ = write!(text, "\n{SEED_VARIABLE}={seed}: {what}");
        }
        text
    }

    /// Asserts that every sequence matched the model.
    ///
    /// # Panics
    /// Panics if a sequence did not. The message contains what is needed to repeat each failure, and the
    /// smallest sequence that fails like the first one.
    pub fn expect_success(&self) {
        let Some((seed, what)) = self.failures.first() else {
            return;
        };
        let same_kind = |other: String| kind_of_failure(&other) == kind_of_failure(what);
        let steps = sequence(*seed, self.mix, self.limits);
        let smallest = shrink(&steps, SHRINK_ATTEMPTS, |rest| {
            self.attempt(rest).is_err_and(same_kind)
        });
        let last = self.attempt(&smallest).err().unwrap_or_default();
        panic!(
            "{}\nsmallest failing sequence of seed {seed}:\n{}{last}",
            self.summary(),
            Listing(&smallest)
        );
    }
}
