//! The command `larder lab readahead`: simulates readahead policies and compares them.

use super::progress::progress;
use super::reading::tolerance;
use super::results::{write, write_results};
use super::trace;
use crate::options::{Names, NamesParser, ResultArgs, parse_seed};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};
use larder::PolicyName;
use larder_console::{Failure, Result, size};
use larder_instruments::simulated::{DEVICE_MODELS, DeviceModel};
use larder_lab::cells::{cell_count, cells};
use larder_lab::compare::{CompareConfig, compare};
use larder_lab::output::Report as _;
use larder_lab::readahead_replay::{MAX_READS, Replay, ReplayConfig, TraceReads};
use larder_lab::simulator::{CpuModel, Error, PAGE_BYTES};
use larder_lab::trace::TraceReader;
use larder_lab::workload::Workload;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Simulate readahead policies on one workload or trace and one device, and compare them
///
/// The command runs larder's page cache and readahead policies on a simulated device, in simulated time. It
/// mounts nothing. With --trace, it replays the recorded reads, with the pauses between the reads of each
/// thread. Then the output has one row for each policy: the simulated time from the first to the last read;
/// the time of all reads together; the number of reads that had to wait; latency of reads; device requests;
/// pages that the device read; pages read ahead, how many of these were used, and how many were not.
///
/// With --workload, the output has one row for each policy: throughput; latency of requests
/// (median, 99th percentile, maximum); number and mean size of device reads; number of pages read ahead, how
/// many of these pages were used, and how many were evicted before use (thrashed); and the share of page
/// lookups that hit.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab readahead --workload sequential
  larder lab readahead --workload interleaved:streams=64,request=64K --device sata-2007 \\
      --memory 128M --policy legacy,ondemand
  larder lab readahead --workload random --device nvme --plot random.svg --csv random.csv
  larder lab readahead --workload oltp --json | jq '.reports[] | {policy, pages_wasted}'
  larder lab readahead --trace disk.trace --device sata-2007
  larder lab readahead --grid --output cells

larder lab list prints all workloads with their parameters.

JSON: workload, device, memory_bytes, readahead_max_bytes, seed, reports [{policy, elapsed_s
(simulated time), throughput_bytes_s, bytes_read, bytes_written, requests, latency {mean_ns, p50_ns,
p90_ns, p99_ns, p999_ns, max_ns}, device_reads, device_read_bytes, mean_device_read_bytes,
device_writes, device_written_bytes, hit_rate, page_lookups, page_hits, page_misses (the reader had
to wait), page_misses_in_flight (the misses of pages that were already being read),
lookups_after_miss (second lookups of missing pages, after the policy ran), readahead_calls
(decisions of the policy), insert_lookups (lookups to find which pages of a window must be read),
policy_lookups (made by the policy itself), pages_ahead, pages_used, pages_wasted (evicted before
use), samples [{at_s, throughput_bytes_s, mean_read_bytes, streams (active readers)}] (one for each
simulated second)}]

JSON with --trace: trace, device, memory_bytes, readahead_max_bytes, seed, reads (in the trace),
replayed_reads, files, readers (threads), recorded_s (from the first to the last replayed read),
shortened (why the end of the trace is missing, if it is), policies [{the keys of reports above, and
read_s (time of all reads together), waits, pages_read, pages_unused (read ahead, but not used)}]

JSON with --grid: seeds, readahead_max_bytes, cells [{workload, device, memory_bytes,
readahead_max_bytes (of the policies of Linux), ratio {value, low, high} (throughput of
adaptive divided by that of the best policy of Linux), policies [{policy, throughput_bytes_s {value,
low, high}, waste (pages read ahead and evicted before use, as a share of the pages read), unused
(pages read ahead and never used, evicted or not, as a share of the pages read)}], is_required (whether
the workload is one of the 16 for which larder has targets for the policy adaptive)}]")]
#[command(group = ArgGroup::new("reads").required(true))]
pub(crate) struct ReadaheadArgs {
    /// Workload: NAME or NAME:PARAMETER=VALUE,...
    #[arg(long, value_name = "WORKLOAD", value_parser = Workload::named, group = "reads")]
    pub workload: Option<Workload>,
    /// Replay the reads of a trace
    ///
    /// Use 'larder mount --record' or 'larder lab record --kernel' to record reads. On a mount, these are the reads that
    /// the kernel requests, after its own readahead.
    #[arg(long, value_name = "FILE", group = "reads")]
    pub trace: Option<PathBuf>,
    /// Replay an incomplete or damaged trace as far as possible
    #[arg(long, requires = "trace")]
    pub salvage: bool,
    /// Compare the policy adaptive with those of Linux
    ///
    /// Simulates all workloads on five devices, each with SEEDS seeds, and prints the throughput of the policy adaptive
    /// relative to the best policy of Linux. This takes several minutes.
    #[arg(long, value_name = "SEEDS", num_args = 0..=1, default_missing_value = "10")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    #[arg(group = "reads", conflicts_with_all = ["device", "memory", "policy", "seed"])]
    pub grid: Option<u64>,
    /// Device to simulate
    ///
    /// scsi-1998 is a 9 GB SCSI disk of 1998. sata-2007 is a 160 GB SATA disk of 2007. sata-2007-cfq is the
    /// same disk with CFQ, the default I/O scheduler of Linux 2.6.20. nvme is an NVM Express drive for data
    /// centres. network-1ms is network storage with a latency of 1 ms, over 10 Gbit/s. object-30ms is an
    /// object store with 30 ms to the first byte. object-tail is an object store with measured latencies, of which
    /// some are long. instant completes each request at once.
    #[arg(long, value_name = "NAME", default_value = "nvme", value_parser = device_names())]
    pub device: &'static DeviceModel,
    /// Memory for cached pages
    ///
    /// The default is 1G or, for the trace of a mount, the size of its caches.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_cache)]
    #[arg(allow_hyphen_values = true)]
    pub memory: Option<u64>,
    /// Policies, separated by commas, or all
    ///
    /// off reads nothing ahead. legacy is the policy of Linux 2.6.20, ondemand the policy of Linux 2.6.23,
    /// and modern the policy of Linux 6.18. adaptive adapts to the streams, the memory and the device.
    #[arg(long, value_name = "NAMES", default_value = "all", value_parser = NamesParser::<PolicyName>::new())]
    pub policy: Names<PolicyName>,
    /// Largest readahead window
    ///
    /// A window is the range of pages that one readahead decision reads. SIZE must be at least one page of
    /// 4 KiB, and is rounded up to whole pages. The default is 128K or, for the trace of a mount, its
    /// largest window. The policy adaptive ignores SIZE.
    #[arg(long, value_name = "SIZE", value_parser = parse_window)]
    #[arg(allow_hyphen_values = true)]
    pub readahead_max: Option<u64>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub results: ResultArgs,
    /// Also write a plot to FILE
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Returns a parser of the names for `--device`.
fn device_names() -> impl TypedValueParser<Value = &'static DeviceModel> {
    let names = DEVICE_MODELS.iter().map(|model| model.name);
    PossibleValuesParser::new(names).try_map(|name| DeviceModel::named(&name))
}

/// Parses the size of the largest window, which must be at least one page.
fn parse_window(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes < PAGE_BYTES => Err(format!(
            "{bytes} bytes is less than a page of {PAGE_BYTES} bytes; to disable readahead, use \
             --policy off"
        )),
        bytes => Ok(bytes),
    }
}

/// Memory for pages, if neither an option nor a trace gives it.
const MEMORY_BYTES: u64 = 1 << 30;
/// The largest window, if neither an option nor a trace gives it.
const READAHEAD_MAX_BYTES: u64 = 128 << 10;

pub(super) fn run(args: &ReadaheadArgs) -> Result<ExitCode> {
    match (&args.workload, &args.trace) {
        (Some(workload), _) => simulate(args, workload),
        (None, Some(trace)) => replay(args, trace),
        (None, None) => run_grid(args),
    }
}

fn simulate(args: &ReadaheadArgs, workload: &Workload) -> Result<ExitCode> {
    let config = CompareConfig {
        workload: workload.clone(),
        device: args.device,
        memory_bytes: args.memory.unwrap_or(MEMORY_BYTES),
        readahead_max_bytes: args.readahead_max.unwrap_or(READAHEAD_MAX_BYTES),
        seed: args.seed,
        cpu: CpuModel::default(),
    };
    let bar = progress(1);
    let compared = compare(&config, &args.policy.0);
    bar.finish_and_clear();
    let comparison = compared.map_err(|error| failure(&error, args))?;
    if let Some(path) = &args.plot {
        write("--plot", path, &comparison.plot())?;
    }
    write_results(&comparison, &args.results, |out| {
        let table = comparison.table().to_text();
        write!(out, "{}\n\n{table}", comparison.title())
    })
}

fn replay(args: &ReadaheadArgs, path: &Path) -> Result<ExitCode> {
    let failed = |error| trace::failure(path, &error);
    let mut reader = TraceReader::open(path, tolerance(args.salvage)).map_err(failed)?;
    let bar = progress(1);
    let reads = TraceReads::of(&mut reader, MAX_READS).map_err(failed)?;
    if reads.kept() == 0 {
        return Err(Failure::with_hint(
            format!("{}: the trace has no reads of files", path.display()),
            "record a mount with larder mount --record, or the kernel with larder lab record --kernel; \
             imported traces and traces of earlier versions have no reads",
        ));
    }
    let mount = reader.info().mount.as_ref();
    let recorded_window = mount.map(|mount| mount.readahead_max_bytes);
    let recorded_window = recorded_window.filter(|bytes| *bytes >= PAGE_BYTES);
    let config = ReplayConfig {
        device: *args.device,
        memory_bytes: args
            .memory
            .or(mount.map(|mount| mount.cache_bytes))
            .unwrap_or(MEMORY_BYTES),
        readahead_max_bytes: args
            .readahead_max
            .or(recorded_window)
            .unwrap_or(READAHEAD_MAX_BYTES),
        seed: args.seed,
        cpu: CpuModel::default(),
    };
    let shortened = reader.shortened().map(str::to_owned);
    let name = path.display().to_string();
    let replayed = Replay::run(name, &reads, shortened, &config, &args.policy.0);
    bar.finish_and_clear();
    let replayed = replayed.map_err(|error| failure(&error, args))?;
    if let (Some(path), [plot, ..]) = (&args.plot, &*replayed.plots()) {
        write("--plot", path, &plot.content)?;
    }
    write_results(&replayed, &args.results, |out| {
        let table = replayed.table().to_text();
        write!(out, "{}\n\n{table}", replayed.title())
    })
}

/// Runs the command with `--grid`.
fn run_grid(args: &ReadaheadArgs) -> Result<ExitCode> {
    let bar = progress(cell_count());
    let window_bytes = args.readahead_max.unwrap_or(READAHEAD_MAX_BYTES);
    let all = cells(args.grid.unwrap_or(1), window_bytes, || bar.inc(1));
    bar.finish_and_clear();
    let all = all.map_err(|error| failure(&error, args))?;
    if let Some(path) = &args.plot {
        write("--plot", path, &all.plot())?;
    }
    write_results(&all, &args.results, |out| {
        write!(out, "{}\n{}\n", all.table().to_text(), all.summary())
    })
}

/// Converts an error of creating a simulation to a failure of the command.
fn failure(error: &Error, args: &ReadaheadArgs) -> Failure {
    let message = error.to_string();
    match error {
        Error::Map { .. } => Failure::with_hint(message, "reduce --memory"),
        Error::OutOfDevice { .. } if args.trace.is_some() => Failure::with_hint(
            message,
            "the files of the trace need a larger device: --device nvme",
        ),
        Error::OutOfDevice { .. } => Failure::with_hint(
            message,
            "use smaller or fewer files: --workload NAME:PARAMETER=VALUE",
        ),
        _ => Failure::new(message),
    }
}
