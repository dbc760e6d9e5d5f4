//! The command `larder lab trace`: inspects a trace, or salvages a damaged trace.

use super::reading::rewritten_hint;
use clap::{Args, Subcommand};
use larder::{Operation, Timestamp};
use larder_console::{Failure, Result, name, print_note, size, time, write_json};
use larder_lab::output::{Table, counted, duration};
use larder_lab::trace::{self, Error, Tolerance, TraceReader, TraceSummary};
use larder_trace::columns::name_of_operation;
use larder_trace::{Batch, Row};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Inspect a trace, or salvage a damaged one
///
/// A trace is a Parquet file of accesses to caches. larder mount --record and larder lab record write
/// traces, and larder lab import converts recordings of other programs. pandas, Polars and Spark can read
/// traces. docs/traces.md describes the rows (one for each access), how to read them with these programs,
/// and how other programs can rewrite a trace.
///
/// During a recording, events are appended to the trace every 5 seconds, and larder lab reads those that it
/// finds. The trace has no footer until the recording ends, and other programs refuse it. For them, larder
/// lab trace salvage copies the events so far to a new trace.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab trace info disk.trace
  larder lab trace show disk.trace --rows 100
  larder lab trace salvage cut.trace saved.trace
  duckdb -c \"SELECT cache, operation, count(*) FROM 'disk.trace' GROUP BY ALL\"

Columns: time (nanoseconds), cache (page, buffer, dentry, inode; file for rows of files), operation
(lookup, insert, remove, evict; read, fault, name), device, inode, index (for a page: its index in the file;
for a buffer: its block; for a dentry: the inode number of its directory), name_hash, hit; of a read:
offset, length, file_size, stream (open file), thread, duration (nanoseconds); of a name: path.
When an inode changes on the image, the trace has a removal and an insertion of the inode.")]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    Info(TraceInfoArgs),
    Show(TraceShowArgs),
    Salvage(TraceSalvageArgs),
}

/// Summarize a trace: events by cache, time, losses
///
/// The command reads the whole trace. If the trace is cut short or damaged, the command reads it up to the
/// first missing or damaged row group, and the exit code is 1. A trace that is being recorded is read up to
/// its last complete row group, and the exit code is 0.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab trace info disk.trace
  larder lab trace info disk.trace --json | jq '.caches.dentry'

JSON: info {source, began_unix_s, tells_changes (whether insertions and removals were recorded),
records_reads, records_paths, mount {cache_bytes, readahead, readahead_max_bytes} (settings of the
recorded mount), attributes {variant, lookups, hits, shares, evicted} (use of mbcache), tables (of the
caches), lost (events), is_cut_short (whether the end of the trace is missing)}, shortened (why the
end is missing, or null), is_being_recorded, is_summed (whether all row groups have checksums),
row_groups, events, first_ns, last_ns, caches {name: {lookups, hits, inserts, removals,
evictions}}, files {reads, read_bytes, paths}")]
pub(crate) struct TraceInfoArgs {
    /// Trace to read
    pub file: PathBuf,
    /// Write one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Print the first events of a trace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab trace show disk.trace
  larder lab trace show disk.trace --rows 1000000 | grep dentry")]
pub(crate) struct TraceShowArgs {
    /// Trace to read
    pub file: PathBuf,
    /// Number of events to print
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
}

/// Copy the readable part of a trace to a new trace
///
/// The copy has all events up to the first missing or damaged row group. A row group has up to half a
/// million events. In the trace of a mount, a row group has the events of about 5 seconds, or fewer. The
/// command also works while the trace is being recorded.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab trace salvage cut.trace saved.trace
  larder lab trace salvage live.trace so-far.trace && duckdb -c \"SELECT count(*) FROM 'so-far.trace'\"")]
pub(crate) struct TraceSalvageArgs {
    /// Trace to read
    pub file: PathBuf,
    /// New trace to write
    pub output: PathBuf,
}

pub(super) fn run(args: &TraceArgs) -> Result<ExitCode> {
    match &args.command {
        TraceCommand::Info(args) => info(args),
        TraceCommand::Show(args) => show(args),
        TraceCommand::Salvage(args) => salvage(args),
    }
}

/// Hint for an incomplete trace.
const SALVAGE: &str = "larder lab trace salvage copies the readable part to a new trace";

fn info(args: &TraceInfoArgs) -> Result<ExitCode> {
    let path = &args.file;
    let failed = |error| failure(path, &error);
    let mut reader = TraceReader::open(path, Tolerance::UpToLastRowGroup).map_err(failed)?;
    let summary = TraceSummary::of(&mut reader).map_err(failed)?;
    if args.json {
        write_json(&summary)?;
    } else {
        let mut out = io::stdout().lock();
        print_text(&mut out, &summary)?;
        out.flush()?;
    }
    match &summary.shortened {
        None => Ok(ExitCode::SUCCESS),
        Some(_) if summary.is_being_recorded => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::with_hint(
            format!("{}: {why}", path.display()),
            SALVAGE,
        )),
    }
}

fn print_text(out: &mut impl Write, summary: &TraceSummary) -> io::Result<()> {
    let info = &summary.info;
    writeln!(out, "Source     {}", info.source)?;
    if let Some(seconds) = info.began_unix_s {
        let began = time::short(Timestamp {
            seconds,
            nanoseconds: 0,
        });
        writeln!(out, "Started    {began}")?;
    }
    let span = Duration::from_nanos(summary.last_ns - summary.first_ns);
    writeln!(
        out,
        "Events     {} in {}, over {:.3} s",
        summary.events,
        counted(summary.row_groups as u64, "row group", "row groups"),
        span.as_secs_f64()
    )?;
    if summary.is_being_recorded {
        writeln!(
            out,
            "State      still being recorded: later events are not shown"
        )?;
    }
    match (&summary.shortened, info.is_cut_short) {
        (None, false) => writeln!(out, "Lost       {}", info.lost)?,
        (None, true) => writeln!(out, "Lost       {}; the end is missing", info.lost)?,
        (Some(_), _) if summary.is_being_recorded => {
            writeln!(out, "Lost       {} so far", info.lost)?;
        }
        (Some(_), _) => writeln!(
            out,
            "Lost       {} up to the last complete row group; the losses after it are unknown",
            info.lost
        )?,
    }
    if !summary.is_summed {
        writeln!(
            out,
            "Checksums  none: another program wrote the trace, and damage may not be detected"
        )?;
    }
    let files = summary.files;
    if info.records_reads || files.reads > 0 {
        writeln!(
            out,
            "Reads      {} of {}",
            files.reads,
            size::human(files.read_bytes)
        )?;
    }
    if info.records_paths {
        writeln!(
            out,
            "Paths      {}: the trace contains names of files",
            files.paths
        )?;
    }
    write!(out, "\n{}", summary.table().to_text())
}

fn show(args: &TraceShowArgs) -> Result<ExitCode> {
    let failed = |error| failure(&args.file, &error);
    let mut reader = TraceReader::open(&args.file, Tolerance::Whole).map_err(failed)?;
    let mut table = Table::new(
        "time (s): | cache | operation | device: | inode: | index: | name hash: | of the file",
    );
    let mut batch = Batch::default();
    let mut left = args.rows;
    while left > 0 && reader.read(&mut batch).map_err(failed)? {
        for row in batch.rows().take(left) {
            table.push(cells(&row));
        }
        left = left.saturating_sub(batch.len());
    }
    let mut out = io::stdout().lock();
    out.write_all(table.to_text().as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn cells(row: &Row) -> [String; 8] {
    let time = |ns| {
        let time = Duration::from_nanos(ns);
        format!("{}.{:09}", time.as_secs(), time.subsec_nanos())
    };
    let device = |device: u32| format!("{}:{}", device >> 20, device & 0xf_ffff);
    let of_file = |time_ns, operation: &str, number, inode: u64, what| {
        [
            time(time_ns),
            "file".to_owned(),
            operation.to_owned(),
            device(number),
            inode.to_string(),
            String::new(),
            String::new(),
            what,
        ]
    };
    match row {
        Row::Cache(event) => [
            time(event.time_ns),
            event.cache.as_str().to_owned(),
            match event.operation {
                Operation::Lookup { hit: true } => "lookup, hit",
                Operation::Lookup { hit: false } => "lookup, miss",
                other => name_of_operation(other),
            }
            .to_owned(),
            device(event.device),
            event.inode.to_string(),
            event.index.to_string(),
            format!("{:x}", event.name_hash),
            String::new(),
        ],
        Row::Read(read) => {
            let operation = if read.is_fault { "fault" } else { "read" };
            let end = read.offset_bytes.saturating_add(read.len_bytes.into());
            let mut what = format!("bytes {} to {end}", read.offset_bytes);
            if read.duration_ns > 0 {
                let took = Duration::from_nanos(read.duration_ns);
                what = format!("{what}, {}", duration(took));
            }
            of_file(read.time_ns, operation, read.device, read.inode, what)
        }
        Row::Path(path) => {
            // A path is hostile input: the terminal must not interpret it.
            let what = name::escaped(path.path.as_bytes());
            of_file(path.time_ns, "name", path.device, path.inode, what)
        }
    }
}

fn salvage(args: &TraceSalvageArgs) -> Result<ExitCode> {
    let salvaged = trace::salvage(&args.file, &args.output).map_err(|error| match &error {
        Error::Io(source) if source.kind() == io::ErrorKind::AlreadyExists => Failure::with_hint(
            format!("{}: {error}", args.output.display()),
            "OUTPUT must name a new file: existing files are not overwritten",
        ),
        _ => failure(&args.file, &error),
    })?;
    let why = salvaged.shortened.as_deref();
    print_note(&format!(
        "copied {} to {}; {}: {}",
        counted(salvaged.events, "event", "events"),
        args.output.display(),
        args.file.display(),
        why.unwrap_or("the trace is complete"),
    ));
    Ok(ExitCode::SUCCESS)
}

/// Converts an error of reading a trace to a failure of the command.
pub(super) fn failure(path: &Path, error: &Error) -> Failure {
    let message = format!("{}: {error}", path.display());
    if let Some(hint) = rewritten_hint(error) {
        return Failure::with_hint(message, hint);
    }
    match error {
        Error::NothingYet => Failure::with_hint(
            message,
            "events are appended every 5 seconds: repeat the command then",
        ),
        Error::CutShort | Error::Damaged(_) | Error::RowGroup { .. } => {
            Failure::with_hint(message, SALVAGE)
        }
        Error::NotParquet | Error::Column { .. } => Failure::with_hint(
            message,
            "larder mount --record and larder lab record create traces; larder lab import converts the \
             recordings of other programs",
        ),
        _ => Failure::new(message),
    }
}
