//! The command `larder lab reproduce`: measures published tables again and compares the results.

use super::progress::{LongProgress, progress, set_total};
use super::results::write_report;
use super::xattr_bench;
use crate::options::parse_seed;
use clap::{Args, ValueEnum, ValueHint};
use indicatif::ProgressBar;
use larder_console::{Failure, Result, print_note};
use larder_instruments::mke2fs;
use larder_lab::output::{Report as _, ReportFile};
use larder_lab::reproduce::program::Program;
use larder_lab::reproduce::state::{Found, State};
use larder_lab::reproduce::{kara2016, lever2000, wu2007};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measure published tables again and compare the results
///
/// The command prints how far its results agree with the published results. With --output, it also writes
/// a report with plots as Markdown, HTML, CSV and JSON.
///
/// wu2007 is simulated, with ten seeds and two schedulers, and takes less than ten minutes. kara2016 is both
/// simulated and measured on this machine. If root runs the command and ext4 can be mounted, the kernel's
/// ext4 is measured too. kara2016 takes about 90 minutes on two processors. lever2000 replays recorded
/// scripts on volumes in memory, and takes about 130 minutes on two processors.
///
/// kara2016 and lever2000 need mke2fs and 6 GiB of memory. With --output, they keep finished measurements
/// in DIR: if the command is interrupted, the same command resumes them. If the kernel's ext4 fails during
/// kara2016, the report contains the finished measurements, and the same command measures the others. If
/// the kernel returns an attribute value other than the one that was set last, the command writes the report
/// and then fails.
///
/// The JSON file of a report contains its measurements. With --from, the command computes the findings and the
/// report from them again, for example after a rule was corrected. A report names both programs: the
/// one that measured, and the one that judged.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab reproduce wu2007
  larder lab reproduce kara2016 --output /tmp/report --quick
  larder lab reproduce lever2000 --from lever2000.json --output /tmp/report

Documents:
  wu2007     F. Wu, readahead: on-demand readahead logic, Linux 2.6.23
  kara2016   J. Kara, ext[24]: MBCache rewrite, linux-ext4, 22 February 2016
  lever2000  C. Lever, Linux Kernel Hash Table Behavior: Analysis and Improvements, 2000")]
pub(crate) struct ReproduceArgs {
    /// Document to reproduce
    #[arg(value_enum)]
    pub document: Document,
    /// Also write the report to DIR
    ///
    /// The command lists the files in DIR that it replaces.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// kara2016, lever2000: judge the measurements in FILE again
    ///
    /// FILE is the JSON file of a report. The command measures nothing. It repeats the simulations of kara2016, and
    /// reads the simulated disk times of lever2000 from FILE.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["seed", "quick", "full"])]
    pub from: Option<PathBuf>,
    /// Seed of the random numbers [default: year of DOCUMENT]
    #[arg(long, value_name = "N", value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: Option<u64>,
    /// Use smaller sizes or fewer cases, to preview the report
    ///
    /// With this option, the command takes seconds. The results prove nothing about the published tables.
    #[arg(long)]
    pub quick: bool,
    /// kara2016: use the published number of setxattr calls
    ///
    /// With this option, each process makes at least 50000 calls in each run, and the command takes about
    /// eight hours on two processors. Without it, only the runs that measure the cache without a file system
    /// make that many calls. Each case has 10 runs, because confidence intervals need that many; the published
    /// figures are averages of 5 runs.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// wu2007: also measure processor time on this machine
    ///
    /// The command writes these times to wu2007-timed.md in the directory of --output.
    #[arg(long, requires = "output")]
    pub timed: bool,
}

/// A document with published figures.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Document {
    /// F. Wu: on-demand readahead
    Wu2007,
    /// J. Kara: shared attribute blocks
    Kara2016,
    /// C. Lever: the hash tables of four caches
    Lever2000,
}

/// Divisor of sizes for `--quick`.
const QUICK_DIVISOR: u64 = 32;

pub(super) fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    if args.full && !matches!(args.document, Document::Kara2016) {
        return Err(Failure::usage("--full applies only to kara2016"));
    }
    if args.from.is_some() && matches!(args.document, Document::Wu2007) {
        return Err(Failure::usage(
            "--from applies only to kara2016 and lever2000",
        ));
    }
    let Made {
        files,
        summary,
        state,
        failure,
    } = match args.document {
        Document::Wu2007 => wu2007(args)?,
        Document::Kara2016 => kara2016(args)?,
        Document::Lever2000 => lever2000(args)?,
    };
    if let Some(dir) = &args.output {
        write_report(dir, &files)?;
    }
    if let Some(state) = state.filter(|state| state.exists()) {
        fs::remove_file(state)?;
    }
    let mut out = io::stdout().lock();
    out.write_all(summary.as_bytes())?;
    if let (Some(dir), Some(report)) = (&args.output, files.first()) {
        writeln!(out, "\n{}", dir.join(&report.name).display())?;
    }
    out.flush()?;
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// A finished reproduction.
struct Made {
    /// The files of the report, the text first.
    files: Vec<ReportFile>,
    /// The printed summary of the report.
    summary: String,
    /// The file with the finished measurements, which is removed after the report was written; `None` if there is no
    /// file, or if it is needed to measure missing figures.
    state: Option<PathBuf>,
    /// The reason why the command fails although there is a report.
    failure: Option<Failure>,
}

impl Made {
    fn new(files: Vec<ReportFile>, summary: String) -> Self {
        Self {
            files,
            summary,
            state: None,
            failure: None,
        }
    }
}

fn wu2007(args: &ReproduceArgs) -> Result<Made> {
    let size = wu2007::Size {
        divisor: if args.quick { QUICK_DIVISOR } else { 1 },
        seed: args.seed.unwrap_or(2007),
        scheduler: wu2007::Scheduler::Deadline,
    };
    let failed = |error: larder_lab::simulator::Error| Failure::new(error.to_string());
    let bar = progress(0);
    let seeds = if args.quick { 1 } else { wu2007::SEEDS };
    let results = wu2007::reproduce(size, seeds, |_, total| advance(&bar, total));
    bar.finish_and_clear();
    let results = results.map_err(failed)?;
    let mut files = results.report()?;
    if args.timed {
        files.push(wu2007::timed_report(size).map_err(failed)?);
    }
    Ok(Made::new(files, results.summary()))
}

/// The file with the finished measurements of kara2016, in the directory of the report.
const KARA2016_STATE: &str = "kara2016.state";

fn kara2016(args: &ReproduceArgs) -> Result<Made> {
    check_untimed(args, "kara2016")?;
    if let Some(path) = &args.from {
        return kara2016_again(path);
    }
    let seed = args.seed.unwrap_or(2016);
    let size = match (args.quick, args.full) {
        (true, _) => kara2016::Size::quick(seed),
        (_, true) => kara2016::Size::published(seed),
        _ => kara2016::Size::full(seed),
    };
    let minutes = |state: &kara2016::State| format!("{} minutes", state.estimated_minutes());
    let mut state = resumable(args, size, KARA2016_STATE, minutes)
        .map_err(|error| Failure::new(kara2016::Error::State(error).to_string()))?;
    let shown = LongProgress::new();
    let results = kara2016::reproduce(&mut state, &xattr_bench::worker()?, |progress| {
        shown.set(progress.finished, progress.runs, progress.left);
    });
    shown.finish();
    let results = results.map_err(|error| Failure::new(error.to_string()))?;
    let state = state.path().filter(|_| !results.is_resumable);
    Ok(Made {
        files: results.report()?,
        summary: results.summary(),
        state: state.map(Path::to_owned),
        failure: results.failure().map(Failure::new),
    })
}

/// Judges the measurements in the JSON file of a report again.
fn kara2016_again(path: &Path) -> Result<Made> {
    let shown = LongProgress::new();
    let judge = |json: &[u8], program| {
        kara2016::judge_again(json, program, |progress| {
            shown.set(progress.finished, progress.runs, progress.left);
        })
    };
    let results = judge_again(path, "kara2016.json", judge, |error: &kara2016::Error| {
        matches!(
            error,
            kara2016::Error::Json(_) | kara2016::Error::Measurements(_)
        )
    });
    shown.finish();
    let results = results?;
    Ok(Made {
        failure: results.failure().map(Failure::new),
        ..Made::new(results.report()?, results.summary())
    })
}

/// Returns the state of a reproduction. With `--output`, the state is kept in the file `name` in that directory,
/// so that the reproduction can be resumed. Without `--output`, or with `--quick`, there is no file. `duration`
/// returns a text that says how long the reproduction takes.
fn resumable<S, P>(
    args: &ReproduceArgs,
    size: S,
    name: &str,
    duration: impl Fn(&State<S, P>) -> String,
) -> io::Result<State<S, P>>
where
    S: PartialEq + Serialize + DeserializeOwned,
    P: Serialize + DeserializeOwned,
{
    if args.quick {
        return State::new(size);
    }
    let Some(dir) = &args.output else {
        let state = State::new(size)?;
        print_note(&format!(
            "this takes about {}; with --output, it can be interrupted and resumed",
            duration(&state)
        ));
        return Ok(state);
    };
    let path = dir.join(name);
    let (state, found) = State::open(size, &path)?;
    match found {
        Found::Nothing => {}
        Found::Parts => print_note(&format!(
            "resuming; to start anew, remove {}",
            path.display()
        )),
        Found::Other => print_note(&format!(
            "starting anew: {} is from another program, seed, size or machine",
            path.display()
        )),
    }
    print_note(&format!(
        "this takes about {}; after an interruption, the same command resumes it",
        duration(&state)
    ));
    Ok(state)
}

/// The file with the finished runs of lever2000, in the directory of the report.
const LEVER2000_STATE: &str = "lever2000.state";

fn lever2000(args: &ReproduceArgs) -> Result<Made> {
    check_untimed(args, "lever2000")?;
    if let Some(path) = &args.from {
        let judge = lever2000::judge_again;
        let results = judge_again(path, "lever2000.json", judge, |error: &lever2000::Error| {
            matches!(
                error,
                lever2000::Error::Json(_) | lever2000::Error::Measurements(_)
            )
        })?;
        return Ok(Made::new(results.report()?, results.summary()));
    }
    let seed = args.seed.unwrap_or(2000);
    let size = if args.quick {
        lever2000::Size::quick(seed)
    } else {
        lever2000::Size::full(seed)
    };
    if args.quick {
        print_note("a quick run proves nothing");
    }
    let minutes = |state: &lever2000::State| {
        let left = state.progress().left;
        format!("{} minutes", left.as_secs().div_ceil(60))
    };
    let mut state = resumable(args, size, LEVER2000_STATE, minutes)
        .map_err(|error| lever2000_failed(&lever2000::Error::State(error)))?;
    let shown = LongProgress::new();
    let results = lever2000::reproduce(&mut state, |progress| {
        shown.set(progress.finished, progress.rounds, progress.left);
    });
    shown.finish();
    let results = results.map_err(|error| lever2000_failed(&error))?;
    Ok(Made {
        files: results.report()?,
        summary: results.summary(),
        state: state.path().map(Path::to_owned),
        failure: None,
    })
}

/// Judges the measurements in the JSON file of a report again. `name` is the name of the file in a report.
/// `is_other_file` returns whether an error means that the file at `path` is not such a file.
fn judge_again<R, E: Display>(
    path: &Path,
    name: &str,
    judge: impl FnOnce(&[u8], Program) -> Result<R, E>,
    is_other_file: impl FnOnce(&E) -> bool,
) -> Result<R> {
    let failed = |message: String| {
        Failure::with_hint(
            message,
            format!("--from must name the file {name} of a report"),
        )
    };
    let json = fs::read(path)
        .map_err(|error| failed(format!("cannot read {}: {error}", path.display())))?;
    let program = Program::current()
        .map_err(|error| Failure::new(format!("cannot read the file of this program: {error}")))?;
    judge(&json, program).map_err(|error| {
        if is_other_file(&error) {
            failed(format!("{}: {error}", path.display()))
        } else {
            Failure::new(error.to_string())
        }
    })
}

fn lever2000_failed(error: &lever2000::Error) -> Failure {
    match error {
        lever2000::Error::Mke2fs(mke2fs::Error::Missing) => {
            Failure::with_hint(error.to_string(), "install e2fsprogs")
        }
        _ => Failure::new(error.to_string()),
    }
}

/// Rejects `--timed` for a document that is always timed.
fn check_untimed(args: &ReproduceArgs, document: &str) -> Result<()> {
    if !args.timed {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--timed applies only to wu2007: {document} is always timed"
    )))
}

/// Advances the progress bar by one of `total` steps.
fn advance(bar: &ProgressBar, total: usize) {
    set_total(bar, u64::try_from(total).unwrap_or(u64::MAX));
    bar.inc(1);
}
