//! Reproduces the table of Kara 2016 (the letter): the times of xattr-bench under variants of mbcache.
//! Compares the published table with measured and simulated ones.
//!
//! There are four tables in addition to the letter's. Three are measured: on a volume of Larder, on mbcache
//! alone, and on the kernel's ext4. The fourth is a simulation of the letter's machine in virtual time, which
//! is deterministic for a given seed.

mod costs;
mod document;
mod error;
mod findings;
mod fit;
mod grid;
mod kernel;
mod measure;
mod plots;
mod reusable;
mod schedule;
mod simulate;
mod size;
mod verdict;

use serde::Serialize;

use crate::xattr_bench::{EntrySize, Worker};
use costs::Costs;
pub use error::Error;
use findings::{RULES, Source};
use fit::{Fit, evaluated};
use grid::{Grid, ORDER};
pub use measure::State;
use measure::{Committed, Measurement, Shares};
use reusable::{Flagged, flagged};
pub use schedule::Progress;
use simulate::{Contended, Sensitivity, sensitivity, simulate};
pub use size::Size;
use verdict::{Judged, judge};

/// The published table, the measured and simulated tables, and the results of each finding.
#[derive(Clone, Debug, Serialize)]
pub struct Kara2016 {
    /// The size of the reproduction.
    #[serde(flatten)]
    pub size: Size,
    /// Number of processors of the measuring machine.
    pub processors: u32,
    /// The letter's table.
    pub published: Grid,
    /// The measured and simulated tables.
    pub ours: Vec<(Source, Grid)>,
    /// How often blocks were shared in the measurements of these tables.
    pub shares: Vec<Shares>,
    /// The commits of the journals in the measurements of these tables.
    pub commits: Vec<Committed>,
    /// Tables that could not be measured, with the reasons.
    pub not_measured: Vec<(Source, String)>,
    /// The results of all findings about times.
    pub findings: Vec<Judged>,
    /// The memory for an entry.
    pub entries: Vec<EntrySize>,
    /// The costs of the simulation.
    pub fit: Fit,
    /// The simulated cases.
    pub contended: Vec<Contended>,
    /// The gain of the reusable flag.
    pub flagged: Vec<Flagged>,
    /// How the simulated growth of times with the number of processes depends on the assumed costs.
    pub sensitivity: Vec<Sensitivity>,
}

/// Measures and simulates all tables, and evaluates the findings. `worker` is the program that each process
/// runs on the kernel's ext4. `progress` is called at the start and after each run.
///
/// # Errors
/// Returns an error if a table cannot be measured. The kernel's table requires root; it is not an error if it
/// is missing.
pub fn reproduce(
    state: &mut State,
    worker: &Worker,
    progress: impl Fn(Progress) + Sync,
) -> Result<Kara2016, Error> {
    let size = state.size().clone();
    let schedule = state.schedule();
    progress(schedule.progress());
    let mut measurement = Measurement {
        state,
        worker,
        schedule: &schedule,
        progress: &progress,
    };
    let gains = reusable::measured(&mut measurement)?;
    let tables = measurement.tables()?;
    let published = Grid::published();
    let fit = evaluated(&size, &published, Costs::FITTED)?;
    let contended = simulate(&size, fit.costs, &|case| {
        progress(schedule.run_done(Source::Simulated, case));
    })?;
    let mut results = Kara2016 {
        processors: u32::try_from(state.processors()).unwrap_or(u32::MAX),
        published,
        ours: vec![(Source::Simulated, simulate::grid(&contended))],
        shares: Vec::new(),
        commits: Vec::new(),
        not_measured: Vec::new(),
        findings: Vec::new(),
        entries: ORDER.into_iter().filter_map(EntrySize::of).collect(),
        flagged: flagged(&size, fit.costs, gains)?,
        sensitivity: sensitivity(&size, fit.costs)?,
        fit,
        contended,
        size,
    };
    for table in tables {
        results.shares.extend(table.shares);
        results.commits.extend(table.commits);
        match table.grid {
            Ok(grid) => results.ours.push((table.source, grid)),
            Err(reason) => results.not_measured.push((table.source, reason)),
        }
    }
    results.judge();
    Ok(results)
}

impl Kara2016 {
    fn judge(&mut self) {
        let processors = self.size.is_full().then_some(self.processors);
        let judged = RULES
            .iter()
            .map(|rule| judge(rule, &self.published, &self.ours, processors));
        self.findings = judged.collect();
    }

    /// Returns the table of `source`, if it exists.
    #[must_use]
    pub fn table(&self, source: Source) -> Option<&Grid> {
        let found = self.ours.iter().find(|(of, _)| *of == source);
        found.map(|(_, grid)| grid)
    }
}
