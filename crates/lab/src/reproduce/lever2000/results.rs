//! The results of a reproduction.

use super::addresses::Layout;
use super::costs::FunctionCost;
use super::disk::DiskMisses;
use super::measure::{Load, Row};
use super::misses::Misses;
use super::recorded::RecordedKeys;
use super::size::Size;
use super::swap::SwapKeys;
use super::turn::EmptyTurn;
use crate::hash::constant::Constants;
use crate::reproduce::finding::Judged;
use crate::reproduce::program::Provenance;
use larder_cache::hash::Function;
use serde::Serialize;

/// What is measured, simulated on the image, or computed from the image. All other results are computed from it, or do
/// not depend on the machine.
pub(super) struct Measurements {
    pub size: Size,
    pub processors: usize,
    pub resumed: u32,
    pub tables: Vec<Vec<Row>>,
    pub misses: Misses,
    pub disk_misses: DiskMisses,
    pub costs: Vec<FunctionCost>,
    pub empty_turn: EmptyTurn,
    pub layouts: Vec<Layout>,
}

/// The measurements, and the result of each finding.
#[derive(Clone, Debug, Serialize)]
pub struct Lever2000 {
    /// The size of the reproduction.
    #[serde(flatten)]
    pub size: Size,
    /// Number of processors of the measuring machine.
    pub processors: usize,
    /// How often the reproduction was interrupted and resumed.
    pub resumed: u32,
    /// The measured rows of Tables 1 to 6.
    pub tables: Vec<Vec<Row>>,
    /// Costs of misses.
    pub misses: Misses,
    /// Costs of misses with a disk.
    pub disk_misses: DiskMisses,
    /// The recorded keys of other tables.
    pub recorded_keys: Vec<RecordedKeys>,
    /// Costs of hash functions.
    pub costs: Vec<FunctionCost>,
    /// The measurements of `larder lab constant --bits 64`.
    pub constants: Option<Constants>,
    /// The longest chains of keys like those of the swap cache.
    pub swap: SwapKeys,
    /// The cost of a turn itself.
    pub empty_turn: EmptyTurn,
    /// The chains of pages with other addresses of inodes.
    pub layouts: Vec<Layout>,
    /// The programs that measured and judged.
    pub provenance: Provenance,
    /// The result of each finding.
    pub findings: Vec<Judged<Self>>,
}

impl Lever2000 {
    /// Returns the row of a kernel in a table, numbered from 1.
    #[must_use]
    pub fn row(&self, table: usize, kernel: &str) -> Option<&Row> {
        let rows = self.tables.get(table.checked_sub(1)?)?;
        rows.iter().find(|row| row.kernel == kernel)
    }

    /// Returns the results of a kernel under the last load of a table, numbered from 1.
    pub(super) fn last_load(&self, table: usize, kernel: &str) -> Option<&Load> {
        self.row(table, kernel)?.loads.last()
    }

    /// Returns the cost of a function, if it was measured.
    pub(super) fn cost(&self, function: Function) -> Option<&FunctionCost> {
        let mut costs = self.costs.iter();
        costs.find(|cost| cost.function == function)
    }
}
