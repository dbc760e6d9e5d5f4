//! Records the keys of a kernel table that is not a cache: processes, users or memory areas.

use super::args::RecordArgs;
use super::failure::failure;
use super::stop::{StopCondition, exit_code, print_interrupt_note};
use crate::commands::interrupt::interrupt;
use crate::commands::written::{Rows, TraceOutput, kernel_release, now_unix_s};
use larder_console::{Result, print_warning, write_json};
use larder_lab::output::counted;
use larder_lab::trace::kernel::Error;
use larder_lab::trace::procfs::{KeyRecorder, KeySummary, KeyTable};
use larder_trace::TraceInfo;
use serde::Serialize;
use std::io::{self, Write};
use std::process::{Child, Command, ExitCode};

#[derive(Debug, Serialize)]
struct Summary {
    output: String,
    events: Rows,
    scans: u64,
    keys: u64,
    peak: u64,
    unreadable: u64,
}

pub(super) fn run(args: &RecordArgs, table: KeyTable) -> Result<ExitCode> {
    // The description contains no command: a recording of keys contains only numbers.
    let info = TraceInfo {
        source: format!("keys of {}, kernel {}", table.as_str(), kernel_release()),
        began_unix_s: now_unix_s(),
        records_changes: true,
        ..TraceInfo::default()
    };
    let mut written = TraceOutput::create("--output", &args.output, &info)?;
    let mut stop = StopCondition::new(args, interrupt()?, spawn)?;
    print_interrupt_note(args);
    let outcome = KeyRecorder::new(table).run(&mut |wait| stop.is_reached(wait), &mut |event| {
        written.push(&event)?;
        written.end_pass()
    });
    let status = stop.finish_child()?;
    let finished = outcome.and_then(|summary| Ok((written.finish(0)?, summary)));
    let (rows, summary) = finished.map_err(|error| failure(&Error::Trace(error)))?;
    print(args, rows, summary)?;
    if summary.unreadable > 0 {
        print_warning(&format!(
            "{} not readable, and not recorded; reading all processes requires root",
            counted(summary.unreadable, "process was", "processes were")
        ));
    }
    Ok(status.map_or(ExitCode::SUCCESS, exit_code))
}

fn spawn(command: &mut Command) -> Result<Child, Error> {
    command.spawn().map_err(|source| Error::Command {
        command: command.get_program().display().to_string(),
        source,
    })
}

fn print(args: &RecordArgs, rows: Rows, summary: KeySummary) -> Result<()> {
    let KeySummary {
        scans,
        keys,
        peak,
        unreadable,
    } = summary;
    let output = args.output.display().to_string();
    if args.json {
        return write_json(&Summary {
            output,
            events: rows,
            scans,
            keys,
            peak,
            unreadable,
        });
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{output}: events: {}", rows.to_text())?;
    writeln!(out, "scans: {scans}, keys: {keys}, at most {peak} at once")?;
    Ok(out.flush()?)
}
