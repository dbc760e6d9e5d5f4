//! The command `larder lab export`: writes the lookups of a trace in libCacheSim's oracleGeneral format.

use super::reading::{rewritten_hint, tolerance};
use super::written::creation_failure;
use clap::Args;
use larder::CacheKind;
use larder_console::{Cache, Failure, Result, print_warning, write_json};
use larder_lab::trace::export::oracle_general::OracleGeneralWriter;
use larder_lab::trace::{Error, TraceReader, TraceSummary};
use larder_trace::Batch;
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Export the lookups of a trace to libCacheSim's oracleGeneral format
///
/// Each lookup of one cache becomes a record of 24 bytes: seconds, object, size, and the number of the
/// next lookup of the same object. The object is a number that stands for the key. If the key is one
/// number, the object is that number. If the key is two numbers below 2^32, the first is the upper half of
/// the object, and the second the lower half. Every other key is hashed to one number.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab export blocks.parquet blocks.oracleGeneral
  larder lab export trace.parquet names.oracleGeneral --cache dentry
  cachesim names.oracleGeneral oracleGeneral lru,s3fifo 0.1

JSON: output (the new file), records (how many)")]
pub(crate) struct ExportArgs {
    /// Trace to export
    pub trace: PathBuf,
    /// New file to write
    ///
    /// The file must not exist yet.
    pub output: PathBuf,
    /// Cache to export [default: the only cache with lookups]
    #[arg(long, value_name = "NAME")]
    pub cache: Option<Cache>,
    /// Accept a trace that was cut short or damaged
    ///
    /// The trace is read up to its first missing or damaged row group.
    #[arg(long)]
    pub salvage: bool,
    /// Write one JSON object instead of the summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Summary {
    output: String,
    records: u64,
}

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let tolerance = tolerance(args.salvage);
    let failed = |error: &Error| failure(args, error);
    let open = || TraceReader::open(&args.trace, tolerance).map_err(|error| failed(&error));
    let summary = TraceSummary::of(&mut open()?).map_err(|error| failed(&error))?;
    let cache = choose(args, &summary)?;
    let mut reader = open()?;
    let writer = OracleGeneralWriter::create(&args.output, cache)
        .map_err(|error| creation_failure("OUTPUT", &args.output, &Error::Io(error)))?;
    let records = export(&mut reader, writer).map_err(|error| {
        // An incomplete export is useless, because it lacks the numbers of the next lookups.
        let _ = fs::remove_file(&args.output);
        failed(&error)
    })?;
    if args.json {
        write_json(&Summary {
            output: args.output.display().to_string(),
            records,
        })?;
    } else {
        let mut out = io::stdout().lock();
        writeln!(out, "{}: records: {records}", args.output.display())?;
        out.flush()?;
    }
    let losses = reader.losses();
    if !losses.are_none() {
        print_warning(&format!("{}: {losses}", args.trace.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the cache whose lookups are exported: the requested one, or the only one in the trace.
fn choose(args: &ExportArgs, summary: &TraceSummary) -> Result<CacheKind> {
    let caches = summary.caches.iter();
    let there: Vec<_> = caches.filter(|(_, events)| events.lookups > 0).collect();
    let trace = args.trace.display();
    let lookups = there
        .iter()
        .map(|(cache, events)| format!("{} {}", cache.as_str(), events.lookups));
    let lookups = lookups.collect::<Vec<_>>().join(", ");
    match (args.cache.map(CacheKind::from), &there[..]) {
        (_, []) => Err(Failure::new(format!(
            "cannot export {trace}: the trace has no lookups"
        ))),
        (Some(cache), _) if there.iter().any(|(one, _)| **one == cache) => Ok(cache),
        (Some(cache), _) => Err(Failure::with_hint(
            format!(
                "cannot export {trace}: the trace has no lookups of the {} cache",
                cache.as_str()
            ),
            format!("choose a cache that has lookups: {lookups}"),
        )),
        (None, [(cache, _)]) => Ok(**cache),
        (None, _) => Err(Failure::usage_with_hint(
            format!("{trace} has lookups of several caches: {lookups}"),
            "choose one with --cache",
        )),
    }
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
    if let Some(hint) = rewritten_hint(error) {
        return Failure::with_hint(message, hint);
    }
    match error {
        Error::CutShort | Error::RowGroup { .. } if !args.salvage => Failure::with_hint(
            message,
            "use --salvage to read it up to its first missing or damaged row group",
        ),
        Error::NotParquet | Error::Column { .. } => Failure::with_hint(
            message,
            "TRACE must name a trace; larder lab record and larder lab import create traces",
        ),
        _ => Failure::new(message),
    }
}
