//! `larder lab export`.

use super::written::not_made;
use crate::args::ExportArgs;
use crate::failure::{Failure, Result};
use crate::json;
use larder_lab::trace::export::oracle_general::OracleGeneralWriter;
use larder_lab::trace::{Batch, Error, Tolerance, TraceReader};
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

#[derive(Debug, Serialize)]
struct Summary {
    output: String,
    records: u64,
}

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let tolerance = if args.salvage {
        Tolerance::UpToLastRowGroup
    } else {
        Tolerance::Whole
    };
    let failed = |error: &Error| failure(args, error);
    let mut reader = TraceReader::open(&args.trace, tolerance).map_err(|error| failed(&error))?;
    let writer = OracleGeneralWriter::create(&args.output, args.cache.into())
        .map_err(|error| not_made("OUTPUT", &args.output, &Error::Io(error)))?;
    let records = export(&mut reader, writer).map_err(|error| {
        // Half of an export has no next accesses.
        let _ = fs::remove_file(&args.output);
        failed(&error)
    })?;
    if args.json {
        json::print(&Summary {
            output: args.output.display().to_string(),
            records,
        })?;
    } else {
        let mut out = io::stdout().lock();
        writeln!(out, "{}: records: {records}", args.output.display())?;
        out.flush()?;
    }
    if let Some(reason) = reader.shortened() {
        writeln!(io::stderr(), "warning: {}: {reason}", args.trace.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn export(reader: &mut TraceReader, mut writer: OracleGeneralWriter) -> Result<u64, Error> {
    let mut batch = Batch::default();
    while reader.read(&mut batch)? {
        for event in batch.events() {
            writer.push(&event)?;
        }
    }
    writer.finish()
}

fn failure(args: &ExportArgs, error: &Error) -> Failure {
    let message = format!("cannot export {}: {error}", args.trace.display());
    match error {
        Error::CutShort | Error::RowGroup { .. } if !args.salvage => {
            Failure::with_hint(message, "--salvage reads it up to the last whole row group")
        }
        Error::NotParquet | Error::Column { .. } | Error::NoVersion => Failure::with_hint(
            message,
            "larder lab record and larder lab import make traces",
        ),
        _ => Failure::new(message),
    }
}
