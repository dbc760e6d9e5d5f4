//! `larder lab reproduce`.

use super::{progress, write_report};
use crate::args::{Document, ReproduceArgs};
use crate::failure::{Failure, Result};
use larder_lab::reproduce::wu2007::{Size, reproduce, timed_report};
use std::io::{self, Write};
use std::process::ExitCode;

/// What sizes are divided by for a quick look.
const QUICK_DIVISOR: u64 = 32;

pub(super) fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    let Document::Wu2007 = args.document;
    let size = Size {
        divisor: if args.quick { QUICK_DIVISOR } else { 1 },
        seed: args.seed,
    };
    let bar = progress(0);
    let results = reproduce(size, |_, total| {
        bar.set_length(u64::try_from(total).unwrap_or(u64::MAX));
        bar.inc(1);
    });
    bar.finish_and_clear();
    let results = results.map_err(|error| Failure::new(error.to_string()))?;
    let mut files = results.report()?;
    if args.timed {
        files.push(timed_report(size).map_err(|error| Failure::new(error.to_string()))?);
    }
    write_report(&args.output, &files)?;
    let mut out = io::stdout().lock();
    out.write_all(results.summary().as_bytes())?;
    writeln!(out, "\n{}", args.output.join("wu2007.md").display())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
