//! `larder lab import`.

use super::written::{Rows, Written};
use crate::args::ImportArgs;
use larder_console::{Failure, Result, write_json};
use larder_lab::trace::Error;
use larder_lab::trace::import::{self, Format, Looks, Skipped};
use larder_trace::TraceInfo;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

/// What is read at once.
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Debug, Serialize)]
struct Summary {
    output: String,
    rows: Rows,
    skipped: Vec<SkippedEntry>,
}

#[derive(Debug, Serialize)]
struct SkippedEntry {
    reason: &'static str,
    lines: u64,
    first: u64,
    text: String,
}

pub(super) fn run(args: &ImportArgs) -> Result<ExitCode> {
    if args.cache.is_some() && !matches!(args.format, Format::Keys | Format::OracleGeneral) {
        return Err(Failure::Usage {
            message: format!(
                "--cache does not go with {}, which says itself",
                args.format
            ),
            hint: Some("give --cache with keys or oracle-general".to_owned()),
        });
    }
    let reader = open(&args.input)?;
    let info = TraceInfo {
        source: format!("{} {}", args.format, args.input.display()),
        ..TraceInfo::default()
    };
    let mut written = Written::create("OUTPUT", &args.output, &info)?;
    let cache = args.cache.map(Into::into);
    let imported = import::import(args.format, cache, reader, &mut |event| {
        written.push(&event)
    });
    let finished = imported.and_then(|skipped| Ok((written.finish(0)?, skipped)));
    let (rows, skipped) = finished.map_err(|error| {
        // Half of an import is of no use, and in the way of another.
        let _ = fs::remove_file(&args.output);
        failure(&args.input, &error)
    })?;
    if args.json {
        write_json(&summary(&args.output, rows, &skipped))?;
    } else {
        print_text(&mut io::stdout().lock(), &args.output, rows, &skipped)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn open(input: &Path) -> Result<Box<dyn BufRead>> {
    if input == Path::new("-") {
        return Ok(Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            io::stdin(),
        )));
    }
    match File::open(input) {
        Ok(file) => Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, file))),
        Err(error) => Err(Failure::with_hint(
            format!("cannot read {}: {error}", input.display()),
            "INPUT must be a file, or - for standard input",
        )),
    }
}

fn failure(input: &Path, error: &Error) -> Failure {
    let input = input.display();
    let message = format!("cannot import {input}: {error}");
    let Error::Foreign(foreign) = error else {
        return Failure::new(message);
    };
    let format = foreign.format;
    let hint = match foreign.looks {
        Some(Looks::Format(other)) => {
            format!("it looks like {other}: larder lab import {other} {input} OUTPUT")
        }
        Some(Looks::Compressed(by)) => {
            format!("{by} made it: {by} -dc {input} | larder lab import {format} - OUTPUT")
        }
        Some(Looks::Parquet) => {
            "it is Parquet, as larder's traces are, which need no import".to_owned()
        }
        None => "FORMAT must be what INPUT is written in: larder lab import --help".to_owned(),
    };
    Failure::with_hint(message, hint)
}

fn summary(output: &Path, rows: Rows, skipped: &Skipped) -> Summary {
    let skipped = skipped.reasons().map(|(reason, lines)| SkippedEntry {
        reason,
        lines: lines.count,
        first: lines.first_number,
        text: lines.first_text.clone(),
    });
    Summary {
        output: output.display().to_string(),
        rows,
        skipped: skipped.collect(),
    }
}

fn print_text(
    out: &mut impl Write,
    output: &Path,
    rows: Rows,
    skipped: &Skipped,
) -> io::Result<()> {
    writeln!(out, "{}: lookups: {}", output.display(), rows.to_text())?;
    for (reason, lines) in skipped.reasons() {
        writeln!(out, "skipped, {reason}: {lines}")?;
    }
    out.flush()
}
