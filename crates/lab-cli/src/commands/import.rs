//! The command `larder lab import`: converts another program's recording to a trace.

use super::written::{Rows, TraceOutput};
use crate::options::choice;
use clap::Args;
use larder_console::{Cache, Failure, Result, write_json};
use larder_lab::trace::Error;
use larder_lab::trace::import::{self, DetectedFormat, Format, Skipped};
use larder_trace::TraceInfo;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Convert another program's recording to a trace
///
/// Lines of INPUT that contain no lookup are skipped. For each reason, the command prints the number of
/// skipped lines, and the line number of the first one. If INPUT contains no lookup, no trace is written.
/// docs/traces.md lists what each format does not record. INPUT can be compressed with gzip or zstd.
#[derive(Debug, Args)]
#[command(after_help = "\
Formats:
  blkparse        output of blkparse(1); becomes lookups of blocks of 4 KiB
  fio             log that fio writes with write_iolog, version 2 or 3;
                  becomes lookups of pages
  strace          output of strace -f -ttt; becomes lookups of pages, names
                  and inodes
  msr             block trace of Microsoft Research Cambridge as CSV; becomes
                  lookups of blocks of 4 KiB
  oracle-general  oracleGeneral trace of libCacheSim; becomes lookups in the
                  cache that --cache names
  arc             trace that was published with ARC (Megiddo and Modha, 2003);
                  becomes lookups of blocks
  keys            one key on each line: a number, two numbers, or a name;
                  becomes lookups in the cache that --cache names

Examples:
  strace -f -ttt -o make.txt make; larder lab import strace make.txt make.parquet
  larder lab import oracle-general w92.oracleGeneral.zst w92.parquet
  ps -eo pid= | larder lab import keys - pids.parquet

JSON: output (the new file), rows (number of lookups) {page, buffer, dentry, inode}, skipped [{reason,
lines (number of skipped lines or records), first (number of the first one), text (beginning of the
first line)}]")]
pub(crate) struct ImportArgs {
    /// Format of INPUT
    #[arg(value_name = "FORMAT", value_parser = choice(&Format::ALL, Format::as_str))]
    pub format: Format,
    /// File to read, or - for standard input
    pub input: PathBuf,
    /// New trace to write
    ///
    /// The file must not exist yet.
    pub output: PathBuf,
    /// Cache of the lookups, only for keys and oracle-general
    ///
    /// The default for oracle-general is inode. By default, keys looks up a number in the inode cache, two
    /// numbers in the page cache, and any other text in the dentry cache.
    #[arg(long, value_name = "NAME")]
    pub cache: Option<Cache>,
    /// Write one JSON object instead of the summary
    #[arg(long)]
    pub json: bool,
}

/// Size of a read in bytes.
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
        return Err(Failure::usage_with_hint(
            format!(
                "--cache cannot be used with {}: the format determines the cache",
                args.format
            ),
            "use --cache only with keys or oracle-general",
        ));
    }
    let reader = open(&args.input)?;
    let info = TraceInfo {
        source: format!("{} {}", args.format, args.input.display()),
        ..TraceInfo::default()
    };
    let mut written = TraceOutput::create("OUTPUT", &args.output, &info)?;
    let cache = args.cache.map(Into::into);
    let imported = import::import(args.format, cache, reader, &mut |event| {
        written.push(&event)
    });
    let finished = imported.and_then(|skipped| Ok((written.finish(0)?, skipped)));
    let (rows, skipped) = finished.map_err(|error| {
        // An incomplete import is useless, and would prevent another one to the same file.
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
    let hint = match foreign.detected {
        Some(DetectedFormat::Format(other)) => {
            format!("the format appears to be {other}: larder lab import {other} {input} OUTPUT")
        }
        Some(DetectedFormat::Compressed(by)) => {
            format!(
                "the file is compressed with {by}: {by} -dc {input} | larder lab import {format} - OUTPUT"
            )
        }
        Some(DetectedFormat::Parquet) => {
            "the file is Parquet, the format of traces; traces need no import".to_owned()
        }
        None => "FORMAT must be the format of INPUT; see larder lab import --help".to_owned(),
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
        writeln!(out, "skipped: {reason} ({lines})")?;
    }
    out.flush()
}
