//! The command `larder lab advise`: recommends options of a mount for a recorded workload.

use super::hash::{failure as trace_failure, open, replay_progress};
use super::results::write_results;
use super::verify::{MeasuredAdvice, VerifyArgs, print_verified, verify};
use crate::options::{ResultArgs, parse_seed};
use clap::{Args, ValueHint};
use indicatif::ProgressStyle;
use larder_console::{Failure, Result, size};
use larder_instruments::simulated::DeviceModel;
use larder_lab::advise::device::DeviceFigures;
use larder_lab::advise::{Advice, Current, Error, Progress, Settings, advise};
use larder_lab::hash::Source;
use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Recommend mount options for a recorded workload
///
/// The command reads a trace once, and predicts how long the recorded program would wait with other options of
/// larder mount: with another size of the caches, and with other readahead policies. It compares tables (-o tables=) only
/// if faster lookups can save 1% of the recording. It prints the recommended options, and how much time of the
/// recording they save, with a 95% confidence interval.
///
/// An option is recommended only if it saves at least 1% of the recording, and if the whole interval is above
/// zero. Otherwise the advice is to keep the current option.
///
/// The output has a table of the caches. With --output, plots show the misses for every size.
///
/// Readahead is simulated with the reads of files in the trace, with their threads and pauses. Imported traces and traces
/// of earlier versions contain no reads. Their reads are reconstructed from the lookups of pages, as if one thread had
/// made them.
///
/// The trace should contain at least a minute of real work, from larder mount --record. A trace of the kernel or of
/// another program also works, but lacks some caches or insertions; the output lists what is missing.
#[derive(Debug, Args)]
#[command(after_help = "\
Table of the caches:
  missed             lookups that missed while the trace was recorded
  misses with SIZE   predicted misses with the current size
  objects with SIZE  number of objects with the current size
  least misses       misses that no size can avoid
  knee               number of objects of the smallest cache that leaves at most 5% of the
                     avoidable misses
  largest useful     number of objects above which a larger cache has no fewer misses

Examples:
  larder lab advise disk.trace
  larder lab advise disk.trace --current cache_size=64M,readahead=modern --memory 1G
  larder lab advise disk.trace --verify disk.img -- find . -name '*.c'
  larder lab advise --options readahead_max=1M --verify disk.img --warm -- cat video.mp4
  larder lab device /dev/sdb --output sdb.json
  larder lab advise disk.trace --device sdb.json --output advice
  larder mount -o $(larder lab advise disk.trace --json | jq -r .mount_option) disk.img /mnt/disk

JSON:
  trace, events, device   the trace, its number of events, the device
  losses                  {events (number of events that were lost during the recording),
                          is_cut_short (whether the end of the trace is missing), reason (why the
                          end is missing, or null)}
  mount_option            recommended value of -o; the current one if no change is recommended
  keeps_current           whether no change is recommended
  recommendation          {current, options (lists of options), recording_ns (duration of the
                          recording), saved_ns {value, low, high} (predicted saving over the whole
                          recording, with its 95% confidence interval), changes [{part (memory,
                          readahead, tables or mbcache), options (empty: keep), saved_ns (of the
                          best alternative, even if it is not recommended), reason}]}
  notes                   what is missing or may be inaccurate
  caches [{cache, lookups, inserts, removals, recorded_misses, current_misses (predicted),
    current_objects, least_misses, knee_objects, useful_objects, is_exact (whether all objects
    were tracked), sampled_share, points [{objects, lru (miss ratio with LRU), low, high,
    clock (miss ratio with the clock algorithm of mounts)}]}]
  costs                   time of a miss: {page_ns, buffer_ns, dentry_ns, inode_ns, reduced_by
                          (factor by which these times were multiplied, so that all misses
                          together take at most the time of the recording)}
  memory                  {current, sizes [{cache_size_bytes, miss_ns}], sufficient_bytes}
  readahead               {origin (recorded: the trace has the reads; page_lookups: they were
                          reconstructed), reads, readers (threads), pages (number of pages that the
                          device reads without readahead), parts (number of parts of the trace
                          that have reads), share (duration of the parts from which reads
                          were taken, divided by that of the recording), waiting_share (time
                          during which at least one read was in progress, divided by the sum of
                          the durations of all reads: less than 1 if reads overlap),
                          memory_bytes (for pages),
                          policies [{policy, readahead_max_bytes, read_s, pages_wasted}], page_ns},
                          or null
  tables                  comparison of tables, or null if it cannot matter
  verification            with --verify: {image, command, is_cold, current, recommended, saved_s,
                          saved_share, verdict (faster, slower or no_difference), predicted_s,
                          predicted_share (of the recording), outcome}.
                          current and recommended are {options, samples [{wall_s (of the command),
                          command_processor_s, server_processor_s, unmount_s}]}.
                          saved_s and saved_share are {value, low, high}. A pair is a run with the
                          current and a run with the recommended options. In saved_s, value is the
                          mean of the time that was saved in a pair, and low and high are its 95%
                          confidence interval. saved_share is saved_s divided by the mean time of
                          the command with the current options.
  outcome                 of a verification:
                          keep: there is nothing to verify
                          inconclusive: the interval of predicted_s or saved_s is unknown, or the
                          interval of saved_s is too wide. This is so in two cases: it contains 0
                          and the whole interval of predicted_s; or both intervals overlap, and that
                          of saved_s is wider than twice the value of predicted_s
                          hit: the intervals overlap, and the result is not inconclusive
                          too_optimistic, too_pessimistic: they do not overlap
                          null: there is no prediction

The ends low and high of an interval are null if too few parts of the trace contribute to the
saving. recorded_misses is null if the trace does not record them. saved_ns is null if the trace
has no data for the part. Each line of the CSV is one of the points of a cache.")]
pub(crate) struct AdviseArgs {
    /// Trace to read
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present = "options")]
    pub trace: Option<PathBuf>,
    /// Accept a trace that was cut short or damaged
    ///
    /// The trace is read up to its first missing or damaged row group.
    #[arg(long)]
    pub salvage: bool,
    /// Options of the recorded mount, as in larder mount -o
    ///
    /// The default is the options that the trace stores, if it is the trace of a mount. The recommendation is
    /// compared with these options. They also show how large the recorded caches were.
    #[arg(long, value_name = "OPTIONS")]
    pub current: Option<String>,
    /// Largest memory for the caches [default: unlimited]
    ///
    /// Without this option, the command searches for the smallest sufficient size.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_cache)]
    pub memory: Option<u64>,
    /// Device of the image: a name or a file
    ///
    /// larder lab list prints the names.
    #[arg(long, value_name = "NAME|FILE", default_value = "nvme")]
    pub device: String,
    /// Seed of the random samples
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(flatten)]
    pub verification: VerifyArgs,
}

/// The options that are taken from the trace of a mount. All others are ignored, so that a trace of unknown origin
/// cannot choose options such as `overlay` for the mounts of `--verify`.
const RECORDED_OPTIONS: [&str; 17] = [
    "ro",
    "noload",
    "offset",
    "partition",
    "cache_size",
    "readahead",
    "readahead_max",
    "readahead_exact",
    "tables",
    "mbcache",
    "direct_device",
    "direct_io",
    "sync",
    "threads",
    "writeback_cache",
    "nowriteback_cache",
    "transport",
];

/// Returns the options that are in [`RECORDED_OPTIONS`].
fn known(options: &[String]) -> Vec<&str> {
    let is_known = |option: &&str| {
        let key = option.split('=').next().unwrap_or_default();
        RECORDED_OPTIONS.contains(&key) && !option.contains([',', '\\'])
    };
    options
        .iter()
        .map(String::as_str)
        .filter(is_known)
        .collect()
}

pub(super) fn run(args: &AdviseArgs) -> Result<ExitCode> {
    let Some(path) = &args.trace else {
        return measure_given(args);
    };
    let trace = open(path, args.salvage)?;
    let recorded = || {
        trace
            .info()
            .mount
            .as_ref()
            .map(|mount| known(&mount.options).join(","))
    };
    let current = args.current.clone().or_else(recorded);
    let (device, device_name) = device(&args.device)?;
    let settings = Settings {
        current: parse_current(&current.unwrap_or_default())?,
        device,
        device_name,
        memory_bytes: args.memory,
        seed: args.seed,
    };
    let advice = with_progress(trace.events(), |report| advise(&trace, &settings, report));
    let advice = advice.map_err(|error| failure(&error))?;
    match &args.verification.verify {
        None => write_results(&advice, &args.results, |out| print_text(out, &advice)),
        Some(image) => measure(args, image, advice),
    }
}

fn parse_current(text: &str) -> Result<Current> {
    Current::parse(text, size::parse).map_err(|error| {
        Failure::usage_with_hint(
            format!("--current: {error}"),
            "give the options as in larder mount -o, for example cache_size=64M,readahead=modern",
        )
    })
}

/// Measures the recommended options, or those of `--options`, and prints the advice and the result.
fn measure(args: &AdviseArgs, image: &Path, advice: Advice) -> Result<ExitCode> {
    if !args.results.json {
        let mut out = io::stdout().lock();
        print_text(&mut out, &advice)?;
        writeln!(out)?;
        out.flush()?;
    }
    let given = args.verification.given_options();
    let is_given = given.is_some();
    let recommendation = &advice.recommendation;
    let options = given.unwrap_or_else(|| recommendation.options.clone());
    let current = recommendation.current.clone();
    let verified = match verify(&args.verification, image.to_owned(), current, options)? {
        ControlFlow::Continue(verified) => verified,
        ControlFlow::Break(code) => return Ok(code),
    };
    let verification = if is_given {
        verified
    } else {
        let recording_s = recommendation.recording_s();
        verified.with_prediction(recommendation.saved_s(), recording_s)
    };
    let measured = MeasuredAdvice {
        advice,
        verification,
    };
    write_results(&measured, &args.results, |out| {
        print_verified(out, &measured.verification)
    })
}

/// Measures the options of `--options` without a trace.
fn measure_given(args: &AdviseArgs) -> Result<ExitCode> {
    let (Some(image), Some(options)) =
        (&args.verification.verify, args.verification.given_options())
    else {
        return Err(Failure::usage(
            "TRACE is required, unless --options and --verify are given",
        ));
    };
    let current = parse_current(args.current.as_deref().unwrap_or_default())?.options;
    match verify(&args.verification, image.clone(), current, options)? {
        ControlFlow::Continue(verified) => write_results(&verified, &args.results, |out| {
            print_verified(out, &verified)
        }),
        ControlFlow::Break(code) => Ok(code),
    }
}

/// What the progress bar shows while the trace is read, and afterwards.
const READING: &str = "{bar:30} {human_pos} of {human_len} events, {elapsed}, about {eta} left";
const SIMULATING: &str = "{spinner} {msg}, {elapsed}";

/// Runs `work` with a progress bar of `events` events.
fn with_progress<T>(events: u64, work: impl FnOnce(&mut dyn FnMut(Progress)) -> T) -> T {
    let bar = replay_progress(events, READING);
    let show = |what| {
        if let Ok(style) = ProgressStyle::with_template(SIMULATING) {
            bar.set_style(style);
        }
        bar.set_message(what);
    };
    let result = work(&mut |step| match step {
        Progress::Events(read) => bar.inc(read),
        Progress::Simulation => show("simulating readahead"),
        Progress::Tables => show("comparing tables"),
    });
    bar.finish_and_clear();
    result
}

/// Returns the device that `--device` names, and its name in the report.
fn device(text: &str) -> Result<(DeviceModel, String)> {
    let unknown = match DeviceModel::named(text) {
        Ok(model) => return Ok((*model, text.to_owned())),
        Err(unknown) => unknown,
    };
    let path = Path::new(text);
    let hint = "--device must be a name from larder lab list, or a file from larder lab device";
    let json = match fs::read_to_string(path) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::usage_with_hint(unknown.to_string(), hint));
        }
        Err(error) => {
            return Err(Failure::with_hint(
                format!("cannot read {text}: {error}"),
                hint,
            ));
        }
    };
    let figures = DeviceFigures::parse(&json)
        .map_err(|error| Failure::with_hint(format!("{text}: {error}"), hint))?;
    Ok((figures.model(), format!("{} (measured)", figures.path)))
}

fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::Trace(error) => trace_failure(error),
        Error::Simulation(_) => Failure::new(message),
        _ => Failure::with_hint(
            message,
            "record the workload with larder mount --record; larder lab trace info shows the content of a trace",
        ),
    }
}

fn print_text(out: &mut dyn Write, advice: &Advice) -> io::Result<()> {
    writeln!(out, "{}\n", advice.headline())?;
    write!(
        out,
        "{}\n{}",
        advice.cache_table().to_text(),
        advice.changes_table().to_text()
    )?;
    if let Some(table) = advice.readahead_table() {
        write!(out, "\n{}", table.to_text())?;
    }
    if !advice.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &advice.notes {
        writeln!(out, "{note}")?;
    }
    writeln!(out, "\n{}", advice.verdict())
}
