//! `larder lab constant`.

use super::hash::failure;
use crate::args::ConstantArgs;
use larder_console::{Failure, Result};
use larder_lab::hash::constant::{KeySet, MEASURED_BITS, Study};
use larder_lab::hash::{Error, TraceFile};
use larder_lab::output::json_text;
use larder_lab::trace::Tolerance;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(args: &ConstantArgs) -> Result<ExitCode> {
    if args.trace.is_some() && args.bits < MEASURED_BITS {
        return Err(Failure::Usage {
            message: format!(
                "words of {} bits are too small for recorded keys",
                args.bits
            ),
            hint: Some(format!(
                "give --bits {MEASURED_BITS} or more, or no --trace"
            )),
        });
    }
    let keys = match &args.trace {
        Some(path) => recorded(path, args),
        None => KeySet::made_up(args.table_bits),
    };
    let keys = keys.map_err(|error| failure(&error))?;
    let study = Study::new(args.bits, args.table_bits, &keys);
    let mut out = io::stdout().lock();
    if args.json {
        out.write_all(json_text(&study)?.as_bytes())?;
    } else {
        write!(out, "{study}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn recorded(path: &Path, args: &ConstantArgs) -> std::result::Result<Vec<KeySet>, Error> {
    let tolerance = if args.salvage {
        Tolerance::UpToLastRowGroup
    } else {
        Tolerance::Whole
    };
    KeySet::read(&TraceFile::open(path, tolerance)?, args.table_bits)
}
