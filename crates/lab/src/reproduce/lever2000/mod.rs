//! The tables and histograms of Lever 2000, measured again and judged beside the published ones.
//!
//! Recorded scripts ([`crate::operations`]) run in this process on volumes, one for each published
//! kernel, where no system call and no FUSE hides the tables. Links walked are counted, and the same in
//! each run but for what threads do to one another; times are of this machine.

mod costs;
mod document;
mod findings;
mod image;
mod kernels;
mod measure;
mod misses;
mod plots;
mod spool;

use crate::hash::constant::{Constants, KeySet, Study};
use crate::operations::Operations;
use crate::published::lever2000::SCRIPTS;
use crate::{hash, mke2fs, operations};
use costs::FunctionCost;
pub use findings::Verdict;
use findings::{FINDINGS, Judged};
use image::Image;
use kernels::{Memory, TABLES};
use larder_cache::hash::Function;
use measure::Row;
use misses::Misses;
use serde::Serialize;
use std::io;

/// A reproduction cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image cannot be made.
    #[error(transparent)]
    Mke2fs(#[from] mke2fs::Error),
    /// Nor read.
    #[error("cannot read the image for the volume: {0}")]
    Image(io::Error),
    /// A script went another way than the recorded one.
    #[error(transparent)]
    Operations(#[from] operations::Error),
    /// The volume failed.
    #[error("the volume failed: {0}")]
    Volume(#[from] larder::Error),
    /// Keys for the constant of 64 bits cannot be made up.
    #[error(transparent)]
    Keys(#[from] hash::Error),
}

/// How large a reproduction is, and where its chance comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Runs of each kernel under each load.
    pub runs: u32,
    /// What scripts at once, and the memory, are divided by.
    pub divisor: u32,
    /// What all files are made from.
    pub seed: u64,
}

impl Size {
    /// As many scripts as the document, in some minutes, with 4 GiB of memory.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            runs: 5,
            divisor: 1,
            seed,
        }
    }

    /// Few scripts: shows the report in seconds, but is no reproduction.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            runs: 2,
            divisor: 16,
            seed,
        }
    }

    /// Whether there are as many scripts as in the document, so that what is measured can be judged.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.divisor == 1
    }

    fn users(&self, published: u32) -> u32 {
        (published / self.divisor).max(1)
    }

    /// Less than this no volume can have.
    fn memory_bytes(&self, memory: Memory) -> u64 {
        (memory.bytes() / u64::from(self.divisor)).max(8 << 20)
    }

    fn total_runs(&self) -> usize {
        let runs = TABLES
            .iter()
            .map(|table| table.kernels.len() * table.loads.len());
        runs.sum::<usize>() * self.runs as usize
    }
}

/// What was measured, and what it says to each finding.
#[derive(Clone, Debug, Serialize)]
pub struct Lever2000 {
    /// How large it is.
    #[serde(flatten)]
    pub size: Size,
    /// Processors of the machine that measured.
    pub processors: usize,
    /// Our rows of Tables 1 to 6.
    pub tables: Vec<Vec<Row>>,
    /// What misses cost.
    pub misses: Misses,
    /// What hash functions cost.
    pub costs: Vec<FunctionCost>,
    /// What `larder lab constant --bits 64` measures.
    pub constants: Option<Constants>,
    /// Each finding.
    pub findings: Vec<Judged>,
}

/// Measures and judges. `progress` is told how many runs are done, and of how many.
///
/// # Errors
/// [`Error`] if a volume cannot be made, or a script does not do what was recorded.
pub fn reproduce(size: Size, mut progress: impl FnMut(usize, usize)) -> Result<Lever2000, Error> {
    let total = size.total_runs();
    let mut done = 0;
    let mut one_done = || {
        done += 1;
        progress(done, total);
    };
    let image = Image::new(Operations::sdm(), size.users(SCRIPTS), &size)?;
    let tables = TABLES
        .iter()
        .map(|table| image.measure(table, &size, &mut one_done));
    let mut results = Lever2000 {
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        tables: tables.collect::<Result<_, _>>()?,
        misses: Misses::measure(&image, size.runs)?,
        costs: costs::measure(),
        constants: constants()?,
        findings: Vec::new(),
        size,
    };
    results.findings = FINDINGS
        .iter()
        .map(|finding| finding.judge(&results))
        .collect();
    Ok(results)
}

/// The published constant in words of 64 bits, under keys made up for tables of 14 bits.
fn constants() -> Result<Option<Constants>, Error> {
    const TABLE_BITS: u32 = 14;
    let keys = KeySet::made_up(TABLE_BITS)?;
    Ok(Study::new(u64::BITS, TABLE_BITS, &keys).constants())
}

impl Lever2000 {
    /// The row of a kernel in a table, from 1.
    #[must_use]
    pub fn row(&self, table: usize, kernel: &str) -> Option<&Row> {
        let rows = self.tables.get(table.checked_sub(1)?)?;
        rows.iter().find(|row| row.kernel == kernel)
    }

    /// What a function costs, if it was measured.
    fn cost(&self, function: Function) -> Option<&FunctionCost> {
        let mut costs = self.costs.iter();
        costs.find(|cost| cost.function == function)
    }
}
