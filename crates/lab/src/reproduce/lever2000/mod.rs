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
mod swap;
mod tree;
mod turn;

use crate::hash::constant::{Constants, KeySet, Study};
use crate::operations::Operations;
use crate::published::lever2000::SCRIPTS;
use disk::DiskMisses;
pub use error::Error;
use image::Image;
use kernels::TABLES;
use misses::Misses;
pub use results::Lever2000;
use results::PROVENANCE;
pub use size::Size;
pub use state::State;
use swap::SwapKeys;
use turn::EmptyTurn;

/// Measures all tables that `state` does not contain, and evaluates the findings. `progress` is called with the
/// number of finished rounds and the total number of rounds.
///
/// # Errors
/// Returns an error if a volume cannot be created, if a script's result differs from the recorded one, or if
/// the file of `state` cannot be written.
pub fn reproduce(
    state: &mut State,
    mut progress: impl FnMut(usize, usize),
) -> Result<Lever2000, Error> {
    let size = *state.size();
    let total = size.total_rounds();
    let mut done = state.finished_rounds();
    progress(done, total);
    let mut one_done = || {
        done += 1;
        progress(done, total);
    };
    let image = Image::new(Operations::sdm(), size.users(SCRIPTS), &size)?;
    let mut tables = Vec::new();
    for table in &TABLES {
        tables.push(image.measure(table, &size, state, &mut one_done)?);
    }
    let mut results = Lever2000 {
        processors: state.processors(),
        resumed: state.resumed(),
        tables,
        misses: Misses::measure(&image)?,
        disk_misses: DiskMisses::measure(&image)?,
        recorded_keys: recorded::measure()?,
        costs: costs::measure(),
        constants: constants()?,
        swap: SwapKeys::measure(),
        empty_turn: EmptyTurn::measure(size.users(SCRIPTS)),
        layouts: addresses::compute(image.programs.inodes(), &size),
        provenance: PROVENANCE,
        findings: Vec::new(),
        size,
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
