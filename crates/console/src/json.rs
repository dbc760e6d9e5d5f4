//! Writes the output of `--json`.

use crate::Result;
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// Writes `value` as JSON to standard output, followed by a line break.
pub fn write_json(value: &impl Serialize) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
