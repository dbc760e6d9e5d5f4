//! Reproduces the table of Kara 2016 (the letter): the times of xattr-bench under variants of mbcache.
//! Compares the published table with measured and simulated ones.
//!
//! There are four tables in addition to the letter's. Three are measured: on a volume of Larder, on mbcache
//! alone, and on the kernel's ext4. The fourth is a simulation of the letter's machine in virtual time, which
//! is deterministic for a given seed.

mod assumption;
mod costs;
mod document;
mod error;
mod findings;
mod fit;
mod grid;
mod kernel;
mod measure;
mod plan;
mod plots;
mod residual;
mod schedule;
mod simulate;
mod size;
mod stored;
mod verdict;

use serde::Serialize;

use super::program::{Program, Provenance};
use crate::xattr_bench::{EntrySize, Worker};
use assumption::{Assumption, assumptions};
use costs::Costs;
pub use error::Error;
use findings::RULES;
use fit::{Fit, evaluated};
use grid::Grid;
pub use measure::State;
use measure::{Committed, Measurement, Part, Shares};
use plan::{Batch, Comparison, ORDER, Source};
pub use schedule::Progress;
use schedule::Schedule;
use simulate::{Contended, simulate};
pub use size::Size;
use stored::Measurements;
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
    /// Tables that could not be measured completely, with the reasons.
    pub not_measured: Vec<(Source, String)>,
    /// Whether missing figures may be measured if the reproduction is resumed.
    pub is_resumable: bool,
    /// The sources of figures in which a file did not have the value that was set.
    pub wrong_data: Vec<Source>,
    /// The results of all findings about times.
    pub findings: Vec<Judged>,
    /// The memory for an entry.
    pub entries: Vec<EntrySize>,
    /// The costs of the simulation.
    pub fit: Fit,
    /// The simulated cells.
    pub contended: Vec<Contended>,
    /// The simulated table with other assumptions.
    pub assumptions: Vec<Assumption>,
    /// All measured runs, from which everything else can be computed again.
    pub parts: Vec<Part>,
    /// The programs that measured and judged.
    pub provenance: Provenance,
}

/// Measures and simulates all tables, and evaluates the findings. `worker` is the program that each process
/// runs on the kernel's ext4. `progress` is called at the start and after each run.
///
/// # Errors
/// Returns an error if a table cannot be measured. The kernel's table requires root; it is not an error if it
/// is missing or incomplete.
pub fn reproduce(
    state: &mut State,
    worker: &Worker,
    progress: impl Fn(Progress) + Sync,
) -> Result<Kara2016, Error> {
    let schedule = state.schedule();
    progress(schedule.progress());
    let mut measurement = Measurement {
        state,
        worker,
        schedule: &schedule,
        progress: &progress,
    };
    let tables = measurement.tables()?;
    let measured = Measurements {
        size: state.size().clone(),
        parts: state.parts().to_vec(),
        tables,
        program: state.program().clone(),
    };
    let program = Program::current().map_err(Error::Program)?;
    judged(measured, program, &schedule, &progress)
}

/// Judges the measurements of a report again. `json` is the report's JSON, and `program` the program that judges.
/// `progress` is called at the start and after each simulated run.
///
/// # Errors
/// Returns an error if `json` is not the JSON of a report, or if its measurements are not those of this program's
/// tables.
pub fn judge_again(
    json: &[u8],
    program: Program,
    progress: impl Fn(Progress) + Sync,
) -> Result<Kara2016, Error> {
    let measured = stored::read(json)?;
    let schedule = measure::schedule(&measured.size, &measured.parts);
    for table in measured
        .tables
        .iter()
        .filter(|table| table.failure.is_some())
    {
        schedule.skip(table.source);
    }
    progress(schedule.progress());
    judged(measured, program, &schedule, &progress)
}

/// Simulates, computes all values that are not measured, and evaluates the findings.
fn judged(
    measured: Measurements,
    program: Program,
    schedule: &Schedule,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<Kara2016, Error> {
    let Measurements {
        size,
        parts,
        tables,
        program: measured_by,
    } = measured;
    let published = Grid::published();
    let fit = evaluated(&size, &published, Costs::FITTED)?;
    let contended = simulate(&size, fit.costs, &|batch, case| {
        progress(schedule.run_done(batch, case));
    })?;
    let assumed = Batch::new(Source::Simulated, Comparison::Assumptions);
    let assumptions = assumptions(&size, fit.costs, &contended, &|case| {
        progress(schedule.run_done(assumed, case));
    })?;
    let simulated = Grid {
        residuals: fit.residuals.clone(),
        ..simulate::grid(&contended)
    };
    let mut results = Kara2016 {
        processors: u32::try_from(measured_by.processors).unwrap_or(u32::MAX),
        published,
        ours: vec![(Source::Simulated, simulated)],
        shares: Vec::new(),
        commits: Vec::new(),
        not_measured: Vec::new(),
        is_resumable: false,
        wrong_data: Vec::new(),
        findings: Vec::new(),
        entries: ORDER.into_iter().filter_map(EntrySize::of).collect(),
        assumptions,
        fit,
        contended,
        size,
        parts,
        provenance: Provenance {
            measured: measured_by,
            judged: program,
        },
    };
    for table in tables {
        results.add(table);
    }
    results.judge();
    Ok(results)
}

impl Kara2016 {
    fn add(&mut self, table: measure::Table) {
        let source = table.source;
        self.shares.extend(table.shares);
        self.commits.extend(table.commits);
        self.ours.extend(table.grid.map(|grid| (source, grid)));
        let Some(failure) = table.failure else {
            return;
        };
        self.not_measured.push((source, failure.reason));
        self.is_resumable |= failure.is_resumable;
        if failure.is_wrong_data {
            self.wrong_data.push(source);
        }
    }

    /// Returns an error message if a file did not have the value that was set.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let mut missing = self.not_measured.iter();
        let (source, reason) = missing.find(|(source, _)| self.wrong_data.contains(source))?;
        Some(format!("{}: {reason}", source.as_str()))
    }

    /// Judges all findings on the complete tables.
    fn judge(&mut self) {
        let processors = self.size.is_full().then_some(self.processors);
        let is_complete = |source: Source| {
            let mut incomplete = self.not_measured.iter();
            incomplete.all(|(of, _)| *of != source)
        };
        let complete = self.ours.iter().filter(|(source, _)| is_complete(*source));
        let complete: Vec<(Source, Grid)> = complete.cloned().collect();
        let judged = RULES.iter().map(|rule| {
            judge(
                rule,
                &self.published,
                &complete,
                &self.assumptions,
                processors,
            )
        });
        self.findings = judged.collect();
    }

    /// Returns the table of `source`, if it exists.
    #[must_use]
    pub fn table(&self, source: Source) -> Option<&Grid> {
        let found = self.ours.iter().find(|(of, _)| *of == source);
        found.map(|(_, grid)| grid)
    }
}
