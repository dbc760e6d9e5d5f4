//! Salvage: a whole trace of what a damaged one still holds.

use super::{Error, Tolerance, TraceReader};
use larder_trace::{Batch, TraceWriter};
use std::path::Path;

/// What was salvaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Events of the new trace.
    pub events: u64,
    /// What was wrong with the old one, if anything.
    pub shortened: Option<String>,
}

/// Writes what the trace at `from` holds, up to its last whole row group, to a new one at `to`.
///
/// # Errors
/// If there is no whole row group, or a file at `to`, or it cannot be written.
pub fn salvage(from: &Path, to: &Path) -> Result<Salvaged, Error> {
    let mut reader = TraceReader::open(from, Tolerance::UpToLastRowGroup)?;
    let mut writer = TraceWriter::create(to, reader.info())?;
    let mut batch = Batch::default();
    let mut events = 0;
    while reader.read(&mut batch)? {
        for event in batch.events() {
            writer.push(&event)?;
        }
        events += batch.len() as u64;
    }
    // A damaged row group is known only now.
    writer.info_mut().clone_from(reader.info());
    writer.finish()?;
    Ok(Salvaged {
        events,
        shortened: reader.shortened().map(str::to_owned),
    })
}
