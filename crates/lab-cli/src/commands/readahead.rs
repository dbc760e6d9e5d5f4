//! The command `larder lab readahead`: simulates readahead policies and compares them.

use super::progress::progress;
use super::results::{write, write_results};
use crate::options::{Names, NamesParser, ResultArgs, parse_seed};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use larder::PolicyName;
use larder_console::{Failure, Result, size};
use larder_instruments::simulated::{DEVICE_MODELS, DeviceModel};
use larder_lab::compare::{CompareConfig, compare};
use larder_lab::simulator::{CpuModel, Error, PAGE_BYTES};
use larder_lab::workload::Workload;
use std::path::PathBuf;
use std::process::ExitCode;

/// Simulate readahead policies on one workload and one device, and compare them
///
/// The command runs larder's page cache and readahead policies on a simulated device, in simulated time. It
/// mounts nothing and reads no files. The output has one row for each policy: throughput; latency of requests
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
simulated second)}]")]
pub(crate) struct ReadaheadArgs {
    /// Workload: NAME or NAME:PARAMETER=VALUE,...
    #[arg(long, value_name = "WORKLOAD", value_parser = Workload::named)]
    pub workload: Workload,
    /// Device to simulate
    ///
    /// scsi-1998 is a 9 GB SCSI disk of 1998. sata-2007 is a 160 GB SATA disk of 2007. sata-2007-cfq is the
    /// same disk with CFQ, the default I/O scheduler of Linux 2.6.20. nvme is an NVM Express drive for data
    /// centres. network-1ms is network storage with a latency of 1 ms, over 10 Gbit/s. object-30ms is an
    /// object store with 30 ms to the first byte. instant completes each request at once.
    #[arg(long, value_name = "NAME", default_value = "nvme", value_parser = device_names())]
    pub device: &'static DeviceModel,
    /// Memory for cached pages
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse_cache)]
    #[arg(allow_hyphen_values = true)]
    pub memory: u64,
    /// Policies, separated by commas, or all
    ///
    /// off reads nothing ahead. legacy is the policy of Linux 2.6.20, ondemand the policy of Linux 2.6.23,
    /// and modern the policy of Linux 6.18.
    #[arg(long, value_name = "NAMES", default_value = "all", value_parser = NamesParser::<PolicyName>::new())]
    pub policy: Names<PolicyName>,
    /// Largest readahead window
    ///
    /// A window is the range of pages that one readahead decision reads. SIZE must be at least one page of
    /// 4 KiB, and is rounded up to whole pages.
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = parse_window)]
    #[arg(allow_hyphen_values = true)]
    pub readahead_max: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub results: ResultArgs,
    /// Also write a plot of the throughput to FILE
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

pub(super) fn run(args: &ReadaheadArgs) -> Result<ExitCode> {
    let config = CompareConfig {
        workload: args.workload.clone(),
        device: args.device,
        memory_bytes: args.memory,
        readahead_max_bytes: args.readahead_max,
        seed: args.seed,
        cpu: CpuModel::default(),
    };
    let bar = progress(1);
    let compared = compare(&config, &args.policy.0);
    bar.finish_and_clear();
    let comparison = compared.map_err(|error| failure(&error))?;
    if let Some(path) = &args.plot {
        write("--plot", path, &comparison.plot())?;
    }
    write_results(&comparison, &args.results, |out| {
        let table = comparison.table().to_text();
        write!(out, "{}\n\n{table}", comparison.title())
    })
}

/// Converts an error of creating a simulation to a failure of the command.
fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::Map { .. } => Failure::with_hint(message, "reduce --memory"),
        Error::OutOfDevice { .. } => Failure::with_hint(
            message,
            "use smaller or fewer files: --workload NAME:PARAMETER=VALUE",
        ),
        _ => Failure::new(message),
    }
}
