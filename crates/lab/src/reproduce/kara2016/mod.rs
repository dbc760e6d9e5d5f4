//! The table of Kara 2016, measured again, simulated, and judged beside the published one.
//!
//! Four tables of ours stand beside the letter's: of a volume, of the cache alone, of the kernel's
//! ext4, and of the letter's machine in virtual time. The last one is the same for one seed.

mod document;
mod findings;
mod grid;
mod kernel;
mod measure;
mod plots;
mod simulate;
mod verdict;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use serde::Serialize;

use crate::xattr_bench::{EntrySize, Error, Worker};
use findings::{FINDINGS, Source};
use grid::Grid;
pub use measure::Size;
use measure::{Shares, measure};
use simulate::{Contended, Sensitivity, sensitivity, simulate};
use verdict::{Judged, judge};

/// The published table, ours, and what they say to each finding.
#[derive(Clone, Debug, Serialize)]
pub struct Kara2016 {
    /// How large it is.
    #[serde(flatten)]
    pub size: Size,
    /// Processors of the machine that measured.
    pub processors: u32,
    /// The letter's table.
    pub published: Grid,
    /// Ours.
    pub ours: Vec<(Source, Grid)>,
    /// What was shared in them.
    pub shares: Vec<Shares>,
    /// Tables that could not be made, and why.
    pub not_measured: Vec<(Source, String)>,
    /// Each finding about times.
    pub findings: Vec<Judged>,
    /// What an entry takes.
    pub entries: Vec<EntrySize>,
    /// What was simulated.
    pub contended: Vec<Contended>,
    /// What becomes of the collapse when prices are others.
    pub sensitivity: Vec<Sensitivity>,
}

/// Measures, simulates and judges. `worker` is what each process runs on the kernel's ext4. `progress`
/// is told how many runs are done, and of how many.
///
/// # Errors
/// [`Error`] if a table cannot be measured, but for the kernel's, which needs root.
pub fn reproduce(
    size: Size,
    worker: &Worker,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Kara2016, Error> {
    let done = AtomicUsize::new(0);
    let total = size.runs() + simulate::runs(&size);
    let one_done = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
    let contended = simulate(&size, &one_done)?;
    let (tables, entries) = measure(&size, worker, &mut || one_done())?;
    let processors = available_parallelism().map_or(1, usize::from);
    let mut results = Kara2016 {
        processors: u32::try_from(processors).unwrap_or(u32::MAX),
        published: Grid::published(),
        ours: vec![(Source::Simulated, simulate::grid(&size, &contended))],
        shares: Vec::new(),
        not_measured: Vec::new(),
        findings: Vec::new(),
        entries,
        sensitivity: sensitivity(&size)?,
        contended,
        size,
    };
    for table in tables {
        results.shares.extend(table.shares);
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
        let judged = FINDINGS
            .iter()
            .map(|finding| judge(finding, &self.published, &self.ours, processors));
        self.findings = judged.collect();
    }

    /// The table from `source`, if it was made.
    #[must_use]
    pub fn table(&self, source: Source) -> Option<&Grid> {
        let found = self.ours.iter().find(|(of, _)| *of == source);
        found.map(|(_, grid)| grid)
    }
}
