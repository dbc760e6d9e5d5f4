//! Records the accesses to the kernel's caches.

use super::args::RecordArgs;
use super::failure::failure;
use super::stop::{StopCondition, exit_code, print_interrupt_note};
use crate::commands::interrupt::interrupt;
use crate::commands::written::{Rows, TraceOutput, kernel_release, now_unix_s};
use larder_console::{Result, print_note, print_warning, size, write_json};
use larder_lab::output::counted;
use larder_lab::trace;
use larder_lab::trace::kernel::{
    Error, KernelConfig, KernelRecorder, KernelSummary, PathCounts, PathSearch, Processes, RowSink,
};
use larder_trace::{Row, TraceInfo};
use serde::Serialize;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Serialize)]
struct Summary<'a> {
    output: String,
    events: Rows,
    kernel_events: u64,
    lost: u64,
    device: Device,
    windows: Windows,
    missing_tracepoints: &'a [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<Paths>,
}

/// The number of recorded files, and of those whose path was found.
#[derive(Clone, Copy, Debug, Serialize)]
struct Paths {
    files: u64,
    found: u64,
}

/// Writes the rows of the recording to the trace.
struct Sink<'w>(&'w mut TraceOutput);

impl RowSink for Sink<'_> {
    fn row(&mut self, row: Row) -> Result<(), trace::Error> {
        match row {
            Row::Cache(event) => self.0.push(&event),
            Row::Read(read) => self.0.push_read(&read),
            Row::Path(path) => self.0.push_path(&path),
        }
    }

    fn end_pass(&mut self) -> Result<(), trace::Error> {
        self.0.end_pass()
    }
}

#[derive(Debug, Serialize)]
struct Device {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Windows {
    sync: u64,
    r#async: u64,
}

pub(super) fn run(args: &RecordArgs) -> Result<ExitCode> {
    let processes = match (&*args.pid, &*args.command) {
        (_, [_, ..]) => Processes::Spawned,
        ([], _) => Processes::All,
        (pids, _) => Processes::Trees(pids.to_vec()),
    };
    let config = KernelConfig {
        mount: args.mount.clone(),
        processes,
        buffer_bytes: args.buffer,
        with_paths: args.paths,
    };
    let interrupt = interrupt()?;
    let recorder = KernelRecorder::start(&config).map_err(|error| failure(&error))?;
    let mut written = TraceOutput::create("--output", &args.output, &info(args))?;
    let mut stop = StopCondition::new(args, interrupt, |command| recorder.spawn(command))?;
    print_interrupt_note(args);
    let outcome = recorder.run(&mut |wait| stop.is_reached(wait), &mut Sink(&mut written));
    let status = stop.finish_child()?;
    let (summary, search) = outcome.map_err(|error| failure(&error))?;
    let paths = search.map(|search| find_paths(search, &stop, &mut written));
    let paths = paths
        .transpose()
        .map_err(|error| failure(&Error::Trace(error)))?;
    let rows = written
        .finish(summary.lost)
        .map_err(|error| failure(&Error::Trace(error)))?;
    print(args, rows, &summary, paths)?;
    if summary.lost > 0 {
        print_warning(&format!(
            "{} lost because the kernel's buffers were full; increase --buffer",
            counted(summary.lost, "event was", "events were")
        ));
    }
    if rows.is_empty() {
        print_warning(&empty_trace_reasons(args, &summary));
    }
    Ok(status.map_or(ExitCode::SUCCESS, exit_code))
}

/// Searches for the paths of the recorded files until a signal arrives.
fn find_paths(
    search: PathSearch,
    stop: &StopCondition,
    written: &mut TraceOutput,
) -> Result<Paths, trace::Error> {
    if io::stderr().is_terminal() {
        let files = counted(search.files(), "file", "files");
        print_note(&format!(
            "searching for the paths of {files}; Ctrl-C skips the rest"
        ));
    }
    let mut stop = || stop.is_interrupted(Duration::ZERO);
    let PathCounts { files, found } =
        search.run(&mut stop, &mut |path| written.push_path(&path))?;
    Ok(Paths { files, found })
}

fn info(args: &RecordArgs) -> TraceInfo {
    let mut source = format!("kernel {}", kernel_release());
    if let Some(mount) = &args.mount {
        source = format!("{source}, mount {}", mount.display());
    }
    for pid in &args.pid {
        source = format!("{source}, process {pid}");
    }
    if let Some(command) = args.command.first() {
        source = format!("{source}, command {}", command.display());
    }
    TraceInfo {
        source,
        began_unix_s: now_unix_s(),
        records_changes: true,
        records_reads: true,
        records_paths: args.paths,
        ..TraceInfo::default()
    }
}

/// Returns possible reasons for an empty trace.
fn empty_trace_reasons(args: &RecordArgs, summary: &KernelSummary) -> String {
    let mut reasons = vec!["nothing was read or written"];
    if args.mount.is_some() {
        reasons.push("the accesses were on file systems other than that of --mount");
    }
    if !args.pid.is_empty() {
        reasons.push("the accesses were by processes other than those of --pid");
    }
    reasons.push("the kernel does not report the accesses (names, mapped pages)");
    if !summary.missing.is_empty() {
        reasons.push("this kernel lacks tracepoints");
    }
    format!(
        "no events were recorded: {}; see docs/traces.md, \"Recording the kernel\"",
        reasons.join(", or ")
    )
}

fn print(
    args: &RecordArgs,
    rows: Rows,
    summary: &KernelSummary,
    paths: Option<Paths>,
) -> Result<()> {
    let counts = summary.counts;
    if args.json {
        return write_json(&Summary {
            output: args.output.display().to_string(),
            events: rows,
            kernel_events: summary.events,
            lost: summary.lost,
            device: Device {
                reads: counts.reads,
                read_bytes: counts.read_bytes,
                writes: counts.writes,
                written_bytes: counts.written_bytes,
            },
            windows: Windows {
                sync: counts.sync_windows,
                r#async: counts.async_windows,
            },
            missing_tracepoints: &summary.missing,
            paths,
        });
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}: events: {}", args.output.display(), rows.to_text())?;
    writeln!(
        out,
        "kernel events: {}, lost: {}",
        summary.events, summary.lost
    )?;
    writeln!(
        out,
        "device reads: {} ({}), device writes: {} ({}), readahead windows: {} ({} at markers)",
        counts.reads,
        size::human(counts.read_bytes),
        counts.writes,
        size::human(counts.written_bytes),
        counts.sync_windows + counts.async_windows,
        counts.async_windows
    )?;
    if let Some(Paths { files, found }) = paths {
        writeln!(out, "files: {files}, paths found: {found}")?;
    }
    for name in &summary.missing {
        writeln!(out, "this kernel has no tracepoint {name}")?;
    }
    Ok(out.flush()?)
}
