//! Reproduces the tables and histograms of Lever 2000, and compares the results with the published
//! ones.
//!
//! Each kernel of the document is represented by a volume with the hash tables of that kernel. Recorded
//! scripts ([`crate::operations`]) run on these volumes in this process, so that neither system calls nor
//! FUSE hide the cost of the tables. Times and the links walked (entries compared in chains) are measured.
//! The counts of links are the same in each run, except for the effects of concurrency. Times depend on the
//! machine.

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
use crate::{hash, operations};
use costs::FunctionCost;
pub use findings::Verdict;
use findings::{FINDINGS, Judged};
use image::Image;
use kernels::{Memory, TABLES};
use larder_cache::hash::Function;
use larder_instruments::mke2fs;
use measure::Row;
use misses::Misses;
use serde::Serialize;
use std::io;

/// Errors of a reproduction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image cannot be created.
    #[error(transparent)]
    Mke2fs(#[from] mke2fs::Error),
    /// The image cannot be read.
    #[error("cannot read the image for the volume: {0}")]
    Image(io::Error),
    /// A script's result differs from the recorded one.
    #[error(transparent)]
    Operations(#[from] operations::Error),
    /// The volume failed.
    #[error("the volume failed: {0}")]
    Volume(#[from] larder::Error),
    /// Keys for the constant of 64 bits cannot be generated.
    #[error(transparent)]
    Keys(#[from] hash::Error),
}

/// The size of a reproduction, and the seed of its random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Number of runs of each kernel under each load.
    pub runs: u32,
    /// Divisor of the numbers of concurrent scripts and of the memory.
    pub divisor: u32,
    /// Seed of the content of all files.
    pub seed: u64,
}

impl Size {
    /// Returns a size with as many scripts as in the document. Measuring takes several minutes and 4 GiB of
    /// memory.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            runs: 5,
            divisor: 1,
            seed,
        }
    }

    /// Returns a size with few scripts, which produces a report in seconds but is not a reproduction.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            runs: 2,
            divisor: 16,
            seed,
        }
    }

    /// Returns whether there are as many scripts as in the document, so that the measurements can be
    /// judged.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.divisor == 1
    }

    fn users(&self, published: u32) -> u32 {
        (published / self.divisor).max(1)
    }

    /// Returns the memory of a volume: that of the full reproduction divided by the divisor, but at least 8
    /// MiB.
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

/// The measurements, and the result of each finding.
#[derive(Clone, Debug, Serialize)]
pub struct Lever2000 {
    /// The size of the reproduction.
    #[serde(flatten)]
    pub size: Size,
    /// Number of processors of the measuring machine.
    pub processors: usize,
    /// The measured rows of Tables 1 to 6.
    pub tables: Vec<Vec<Row>>,
    /// Costs of misses.
    pub misses: Misses,
    /// Costs of hash functions.
    pub costs: Vec<FunctionCost>,
    /// The measurements of `larder lab constant --bits 64`.
    pub constants: Option<Constants>,
    /// The result of each finding.
    pub findings: Vec<Judged>,
}

/// Measures all tables, and evaluates the findings. `progress` is called with the number of finished runs and
/// the total number of runs.
///
/// # Errors
/// Returns an error if a volume cannot be created, or if a script's result differs from the recorded one.
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

/// Returns the results of the published multiplier in words of 64 bits, with generated keys in tables of 2^14
/// buckets.
fn constants() -> Result<Option<Constants>, Error> {
    const TABLE_BITS: u32 = 14;
    let keys = KeySet::generated(TABLE_BITS)?;
    Ok(Study::new(u64::BITS, TABLE_BITS, &keys).constants())
}

impl Lever2000 {
    /// Returns the row of a kernel in a table, numbered from 1.
    #[must_use]
    pub fn row(&self, table: usize, kernel: &str) -> Option<&Row> {
        let rows = self.tables.get(table.checked_sub(1)?)?;
        rows.iter().find(|row| row.kernel == kernel)
    }

    /// Returns the cost of a function, if it was measured.
    fn cost(&self, function: Function) -> Option<&FunctionCost> {
        let mut costs = self.costs.iter();
        costs.find(|cost| cost.function == function)
    }
}
