//! Reads the measurements in the JSON of a report, so that they can be judged again.
//!
//! # Model
//! Only the measured parts are read. All other values are computed again, and all simulations are repeated.
//!
//! # Invariants
//! 1. The size is one of this program's.
//! 2. Each part contains the settings, the variants and the runs of its batch, and times are positive.
//! 3. Each part belongs to exactly one table. Only measured tables can be incomplete, and only incomplete ones can have
//!    wrong data.

use super::error::Error;
use super::measure::{Failure, Part, Table};
use super::plan::{Batch, Source};
use super::size::Size;
use crate::reproduce::program::{self, Program};
use serde::Deserialize;

#[derive(Deserialize)]
struct Stored {
    #[serde(flatten)]
    size: Size,
    parts: Vec<Part>,
    not_measured: Vec<(Source, String)>,
    wrong_data: Vec<Source>,
    provenance: StoredProvenance,
}

#[derive(Deserialize)]
struct StoredProvenance {
    measured: Program,
}

/// The measurements of a report.
pub(super) struct Measurements {
    pub size: Size,
    pub parts: Vec<Part>,
    pub tables: Vec<Table>,
    pub program: Program,
}

/// Reads the measurements in `json`.
///
/// # Errors
/// Returns an error if `json` is not the JSON of a report, or if its measurements are not those of this program's
/// tables.
pub(super) fn read(json: &[u8]) -> Result<Measurements, Error> {
    let stored: Stored = serde_json::from_slice(json)?;
    stored.checked().map_err(Error::Measurements)
}

impl Stored {
    fn checked(self) -> Result<Measurements, String> {
        let seed = self.size.seed;
        let sizes = [Size::quick(seed), Size::full(seed), Size::published(seed)];
        if !sizes.contains(&self.size) {
            return Err("the size is not one of this program's".to_owned());
        }
        let program = &self.provenance.measured;
        let mut reasons = self.not_measured.iter().map(|(_, reason)| reason.as_str());
        if !program.is_printable() || !reasons.all(program::is_plain) {
            return Err("a text contains markup or is too long".to_owned());
        }
        let incomplete = self.not_measured.iter().map(|(source, _)| *source);
        let incomplete: Vec<Source> = incomplete.collect();
        if !is_selection(&incomplete, &Source::MEASURED)
            || !is_selection(&self.wrong_data, &incomplete)
        {
            return Err("the lists of incomplete tables are wrong".to_owned());
        }
        let mut tables = Vec::new();
        let mut used = 0;
        for source in Source::MEASURED {
            let failure = self.failure(source);
            let parts = self.parts_of(source, failure.is_some())?;
            used += parts.len();
            tables.push(Table::new(source, &parts, failure));
        }
        if used != self.parts.len() {
            return Err("a part does not belong to a table".to_owned());
        }
        Ok(Measurements {
            size: self.size,
            parts: self.parts,
            tables,
            program: self.provenance.measured,
        })
    }

    /// Returns why the table of `source` is incomplete.
    fn failure(&self, source: Source) -> Option<Failure> {
        let mut incomplete = self.not_measured.iter();
        let (_, reason) = incomplete.find(|(of, _)| *of == source)?;
        Some(Failure {
            reason: reason.clone(),
            is_wrong_data: self.wrong_data.contains(&source),
            is_resumable: false,
        })
    }

    /// Returns the parts of the table of `source`. Parts may be missing if the table is incomplete.
    fn parts_of(&self, source: Source, is_incomplete: bool) -> Result<Vec<Part>, String> {
        let mut parts = Vec::new();
        for batch in Batch::ALL
            .into_iter()
            .filter(|batch| batch.source == source)
        {
            for case in self.size.cases(batch) {
                let config = self.size.config(batch, case);
                let mut found = self.parts.iter().filter(|part| part.is(batch, case));
                match (found.next(), found.next()) {
                    (Some(part), None) if part.is_complete(&config) => parts.push(part.clone()),
                    (None, None) if is_incomplete => {}
                    _ => return Err(format!("{}: {case:?}", source.as_str())),
                }
            }
        }
        Ok(parts)
    }
}

/// Returns whether `some` contains only elements of `all`, each at most once, in the order of `all`.
fn is_selection(some: &[Source], all: &[Source]) -> bool {
    let selected = all.iter().filter(|source| some.contains(source));
    selected.eq(some)
}
