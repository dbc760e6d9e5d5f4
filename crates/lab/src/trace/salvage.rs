//! Salvages the readable part of a damaged trace as a complete trace.

use super::{Error, Tolerance, TraceReader};
use larder_trace::{Batch, TraceWriter};
use std::path::Path;

/// The result of a salvage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Number of events in the new trace.
    pub events: u64,
    /// The damage of the old trace, if any.
    pub shortened: Option<String>,
}

/// Copies the trace at `from`, up to its last intact row group, to a new one at `to`.
///
/// # Errors
/// If there is no intact row group, or `to` exists, or it cannot be written.
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
    // Damaged row groups are only known after reading.
    writer.info_mut().clone_from(reader.info());
    writer.finish()?;
    Ok(Salvaged {
        events,
        shortened: reader.shortened().map(str::to_owned),
    })
}
