//! Copies the readable part of a damaged or incomplete trace to a new, complete trace.

use super::{Error, Tolerance, TraceReader};
use larder_trace::{Batch, Row, TraceWriter};
use std::path::Path;

/// The result of a salvage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Number of events in the new trace.
    pub events: u64,
    /// The reason why the end of the old trace is missing; `None` if the old trace is complete.
    pub shortened: Option<String>,
}

/// Copies the trace at `from`, up to the first damaged or missing row group, to a new file at `to`.
///
/// # Errors
/// Returns an error if there is no intact row group, if `to` exists, or if `to` cannot be written.
pub fn salvage(from: &Path, to: &Path) -> Result<Salvaged, Error> {
    let mut reader = TraceReader::open(from, Tolerance::UpToLastRowGroup)?;
    let mut writer = TraceWriter::create(to, reader.info())?;
    let mut batch = Batch::default();
    let mut events = 0;
    while reader.read(&mut batch)? {
        for row in batch.rows() {
            match row {
                Row::Cache(event) => writer.push(&event)?,
                Row::Read(read) => writer.push_read(&read)?,
                Row::Path(path) => writer.push_path(&path)?,
            }
        }
        events += batch.len() as u64;
    }
    // Reading may have detected damage, which changes the metadata, so copy the metadata again.
    writer.info_mut().clone_from(reader.info());
    writer.finish()?;
    Ok(Salvaged {
        events,
        shortened: reader.shortened().map(str::to_owned),
    })
}
