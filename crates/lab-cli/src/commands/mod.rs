//! The subcommands, one module each: their arguments and their implementation.

mod constant;
mod export;
mod hash;
mod import;
mod list;
mod readahead;
mod record;
mod reproduce;
mod sdm;
mod trace;
mod tune;
mod written;
pub(crate) mod xattr_bench;

use crate::options::ResultArgs;
use clap::{Parser, Subcommand};
use constant::ConstantArgs;
use export::ExportArgs;
use hash::HashArgs;
use import::ImportArgs;
use indicatif::{ProgressBar, ProgressStyle};
use larder_console::{Failure, Result, logging, print_note};
use larder_lab::output::{Report, ReportFile};
use larder_lab::trace::{Error, Tolerance};
use list::ListArgs;
use readahead::ReadaheadArgs;
use record::RecordArgs;
use reproduce::ReproduceArgs;
use sdm::SdmArgs;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::fs;
use std::io::{self, IsTerminal, PipeReader, Write};
use std::path::Path;
use std::process::ExitCode;
use trace::TraceArgs;
use tune::TuneArgs;
use xattr_bench::XattrBenchArgs;

/// Simulate, measure and tune caches and readahead
///
/// readahead runs the page cache and the readahead policies of a mount on a
/// simulated device, in virtual time: it mounts nothing and reads no files, and
/// the same command always prints the same numbers. hash and tune replay a trace
/// of cache accesses. constant, xattr-bench and sdm measure this machine.
#[derive(Debug, Parser)]
#[command(
    name = "larder-lab",
    bin_name = "larder lab",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  larder lab list                          list workloads and devices
  larder lab readahead --workload interleaved:streams=64 --device nvme
  larder lab hash --keys pages             compare hash functions
  larder lab trace info disk.trace         summarize a trace
  larder lab xattr-bench --processes 4     measure shared attributes
  larder lab reproduce wu2007              compare with published tables"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Readahead(ReadaheadArgs),
    Hash(HashArgs),
    Tune(TuneArgs),
    Record(RecordArgs),
    Trace(TraceArgs),
    Import(ImportArgs),
    Export(ExportArgs),
    Constant(ConstantArgs),
    XattrBench(XattrBenchArgs),
    Sdm(SdmArgs),
    Reproduce(ReproduceArgs),
    List(ListArgs),
}

/// Runs one subcommand.
pub(crate) fn run(command: &Command) -> Result<ExitCode> {
    logging::start(None)?;
    match command {
        Command::Readahead(args) => readahead::run(args),
        Command::Hash(args) => hash::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Record(args) => record::run(args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Constant(args) => constant::run(args),
        Command::Trace(args) => trace::run(args),
        Command::XattrBench(args) => xattr_bench::run(args),
        Command::Sdm(args) => sdm::run(args),
        Command::Reproduce(args) => reproduce::run(args),
        Command::List(args) => list::run(args),
    }
}

/// Returns a hint for a trace that cannot be read because another program rewrote it.
fn rewritten_hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::NoVersion => Some(
            "make that program keep the key larder.trace.version; see docs/traces.md, \"Rewriting a trace\"",
        ),
        Error::Codec(_) => Some("make that program use Snappy or no compression"),
        _ => None,
    }
}

/// Returns the tolerance that `--salvage` selects.
fn tolerance(salvage: bool) -> Tolerance {
    if salvage {
        Tolerance::UpToLastRowGroup
    } else {
        Tolerance::Whole
    }
}

/// Returns a pipe that becomes readable on SIGINT, SIGTERM or SIGHUP, so that the command can
/// remove its files.
fn interrupt() -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// Returns a progress bar of `total` runs (0 if the number is unknown) on standard error. The bar
/// is hidden if standard error is not a terminal.
fn progress(total: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("preparing, {elapsed}") {
        bar.set_style(style);
    }
    if total > 0 {
        set_total(&bar, total);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

/// Sets the number of runs, once it is known.
fn set_total(bar: &ProgressBar, total: u64) {
    if bar.length() == Some(total) {
        return;
    }
    bar.set_length(total);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} runs, {elapsed}") {
        bar.set_style(style);
    }
}

/// Writes the results of a command in the forms that `args` select; `print_text` prints the tables.
fn write_results(
    report: &impl Report,
    args: &ResultArgs,
    print_text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<ExitCode> {
    if let Some(path) = &args.csv {
        write("--csv", path, &report.to_csv()?)?;
    }
    if let Some(dir) = &args.output {
        write_report(dir, &report.report()?)?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        out.write_all(report.to_json()?.as_bytes())?;
    } else {
        print_text(&mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the file that `option` names, and prints a note if the file existed before.
fn write(option: &str, path: &Path, content: &str) -> Result<()> {
    let exists = fs::metadata(path).is_ok_and(|present| present.is_file());
    fs::write(path, content).map_err(|error| {
        Failure::with_hint(
            format!("cannot write {}: {error}", path.display()),
            format!("{option} must name a file in a writable directory"),
        )
    })?;
    if exists {
        print_note(&format!("replaced {}", path.display()));
    }
    Ok(())
}

/// Writes a report to `dir`, which is created if necessary.
fn write_report(dir: &Path, files: &[ReportFile]) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| {
        Failure::with_hint(
            format!("cannot create {}: {error}", dir.display()),
            "--output must name a directory that exists or can be created",
        )
    })?;
    for file in files {
        write("--output", &dir.join(&file.name), &file.content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        let cli = Cli::command();
        for command in cli.get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string);
            assert!(
                help.is_some_and(|text| text.contains("Examples:")),
                "{}",
                command.get_name()
            );
        }
    }
}
