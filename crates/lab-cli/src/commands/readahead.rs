//! `larder lab readahead`.

use super::{progress, write, write_results};
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

/// Compare readahead policies under one workload on one device
///
/// Prints a row for each policy: throughput, how long requests took (half of them,
/// 99 in 100, all), reads of the device and their mean size, pages read ahead, how
/// many of them were used and how many evicted before (thrashed), and the share of
/// page lookups that were hits.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab readahead --workload sequential
  larder lab readahead --workload interleaved:streams=64,request=64K --device sata-2007 \\
      --memory 128M --policy legacy,ondemand
  larder lab readahead --workload random --device nvme --plot random.svg --csv random.csv
  larder lab readahead --workload oltp --json | jq '.reports[] | {policy, pages_wasted}'

larder lab list shows every workload with its parameters, and every device.")]
pub(crate) struct ReadaheadArgs {
    /// What readers do: NAME or NAME:PARAMETER=VALUE,...
    #[arg(long, value_name = "WORKLOAD", value_parser = Workload::named)]
    pub workload: Workload,
    /// The device that is simulated
    #[arg(long, value_name = "NAME", default_value = "nvme", value_parser = device_names())]
    pub device: &'static DeviceModel,
    /// Memory for pages
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse_cache)]
    #[arg(allow_hyphen_values = true)]
    pub memory: u64,
    /// Policies, separated by commas, or all
    #[arg(long, value_name = "NAMES", default_value = "all", value_parser = NamesParser::<PolicyName>::new())]
    pub policy: Names<PolicyName>,
    /// The most that is read ahead at once: a page of 4 KiB or more, rounded up to whole ones
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = parse_window)]
    #[arg(allow_hyphen_values = true)]
    pub readahead_max: u64,
    /// What chance is drawn from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub results: ResultArgs,
    /// Write a plot of the throughput to FILE, too
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Returns a parser of the names for `--device`.
fn device_names() -> impl TypedValueParser<Value = &'static DeviceModel> {
    let names = DEVICE_MODELS.iter().map(|model| model.name);
    PossibleValuesParser::new(names).try_map(|name| DeviceModel::named(&name))
}

/// Parses the size of the largest window, which is at least one page.
fn parse_window(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes < PAGE_BYTES => Err(format!(
            "{bytes} bytes are less than a page of {PAGE_BYTES}: to read nothing ahead, give \
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
        Error::Map { .. } => Failure::with_hint(message, "give less with --memory SIZE"),
        Error::OutOfDevice { .. } => Failure::with_hint(
            message,
            "give smaller or fewer files with --workload NAME:PARAMETER=VALUE",
        ),
        _ => Failure::new(message),
    }
}
