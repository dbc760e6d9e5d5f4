//! Reproduces the tables and histograms of Lever 2000, and compares the results with the published
//! ones.
//!
//! Each kernel of the document is represented by a volume with the hash tables of that kernel. Recorded
//! scripts ([`crate::operations`]) run on these volumes in this process, so that neither system calls nor
//! FUSE hide the cost of the tables. Times and the links walked (entries compared in chains) are measured.
//! The counts of links are the same in each run, except for the effects of concurrency. Times depend on the
//! machine.

mod addresses;
mod costs;
mod disk;
mod document;
mod error;
mod findings;
mod image;
mod kernel_run;
mod kernels;
mod measure;
mod misses;
mod plan;
mod plots;
mod programs;
mod recorded;
mod results;
mod runs;
mod size;
mod spool;
mod state;
mod stored;
mod swap;
mod tree;
mod turn;

use crate::hash::constant::{Constants, KeySet, Study};
use crate::operations::Operations;
use crate::published::lever2000::SCRIPTS;
use crate::reproduce::program::{Program, Provenance};
use disk::DiskMisses;
pub use error::Error;
use image::Image;
use kernels::TABLES;
use misses::Misses;
pub use results::Lever2000;
use results::Measurements;
pub use size::Size;
pub use state::{Progress, State};
use swap::SwapKeys;
use turn::EmptyTurn;

/// Measures all tables that `state` does not contain, and evaluates the findings. `progress` is called at the start and
/// after each round.
///
/// # Errors
/// Returns an error if a volume cannot be created, if a script's result differs from the recorded one, or if
/// the file of `state` cannot be written.
pub fn reproduce(
    state: &mut State,
    mut progress: impl FnMut(Progress),
) -> Result<Lever2000, Error> {
    let size = *state.size();
    let mut round_done = |state: &State| progress(state.progress());
    round_done(state);
    let image = Image::new(Operations::sdm(), size.users(SCRIPTS), &size)?;
    let mut tables = Vec::new();
    for table in &TABLES {
        tables.push(image.measure(table, &size, state, &mut round_done)?);
    }
    let measured = Measurements {
        size,
        processors: state.processors(),
        resumed: state.resumed(),
        tables,
        misses: Misses::measure(&image)?,
        disk_misses: DiskMisses::measure(&image)?,
        costs: costs::measure(),
        empty_turn: EmptyTurn::measure(size.users(SCRIPTS)),
        layouts: addresses::compute(image.programs.inodes(), &size),
    };
    let provenance = Provenance {
        measured: state.program().clone(),
        judged: Program::current().map_err(Error::Program)?,
    };
    judged(measured, provenance)
}

/// Judges the measurements of a report again. `json` is the report's JSON, and `program` the program that judges.
///
/// # Errors
/// Returns an error if `json` is not the JSON of a report, or if its measurements are not those of this program's
/// tables.
pub fn judge_again(json: &[u8], program: Program) -> Result<Lever2000, Error> {
    let (measured, measured_by) = stored::read(json)?;
    let provenance = Provenance {
        measured: measured_by,
        judged: program,
    };
    judged(measured, provenance)
}

/// Computes all results that are not measured, and evaluates the findings.
fn judged(measured: Measurements, provenance: Provenance) -> Result<Lever2000, Error> {
    let mut results = Lever2000 {
        size: measured.size,
        processors: measured.processors,
        resumed: measured.resumed,
        tables: measured.tables,
        misses: measured.misses,
        disk_misses: measured.disk_misses,
        recorded_keys: recorded::measure()?,
        costs: measured.costs,
        constants: constants()?,
        swap: SwapKeys::measure(),
        empty_turn: measured.empty_turn,
        layouts: measured.layouts,
        provenance,
        findings: Vec::new(),
    };
    results.findings = findings::judge(&results);
    Ok(results)
}

/// Returns the results of the published multiplier in words of 64 bits, with generated keys in tables of 2^14
/// buckets.
fn constants() -> Result<Option<Constants>, Error> {
    const TABLE_BITS: u32 = 14;
    let keys = KeySet::generated(TABLE_BITS)?;
    Ok(Study::new(u64::BITS, TABLE_BITS, &keys).constants())
}
