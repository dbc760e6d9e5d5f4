//! The command line of `larder lab`.

mod constant;
mod export;
mod hash;
mod import;
mod names;
mod record;
mod reproduce;
mod results;
mod sdm;
mod trace;
mod tune;
mod xattr_bench;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use larder::PolicyName;
use larder_console::size;
use larder_instruments::simulated::{DEVICE_MODELS, DeviceModel};
use larder_lab::simulator::PAGE_BYTES;
use larder_lab::workload::Workload;
use names::NamesParser;
use std::path::PathBuf;

pub(crate) use constant::ConstantArgs;
pub(crate) use export::ExportArgs;
pub(crate) use hash::{HashArgs, KeysArgs};
pub(crate) use import::ImportArgs;
pub(crate) use names::Names;
pub(crate) use record::RecordArgs;
pub(crate) use reproduce::{Document, ReproduceArgs};
pub(crate) use results::ResultArgs;
pub(crate) use sdm::SdmArgs;
pub(crate) use trace::{TraceArgs, TraceCommand, TraceInfoArgs, TraceSalvageArgs, TraceShowArgs};
pub(crate) use tune::TuneArgs;
pub(crate) use xattr_bench::{TargetName, XattrBenchArgs};

/// Compare what caches and readahead do, reproduce published results
///
/// Readahead: the page cache and the policies of a mount run over a simulated
/// device, in virtual time; nothing is mounted or read, and the same command
/// prints the same figures. xattr-bench measures this machine.
#[derive(Debug, Parser)]
#[command(
    name = "larder-lab",
    bin_name = "larder lab",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  larder lab list                          what can be simulated
  larder lab readahead --workload interleaved:streams=64 --device nvme
  larder lab hash --keys pages             hash functions under keys
  larder lab trace info disk.trace         what a recording holds
  larder lab xattr-bench --processes 4     how fast files share attributes
  larder lab reproduce wu2007              the published tables beside ours"
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

/// List the workloads with their parameters, the devices, the policies and the hash functions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab list
  larder lab list --json | jq -r '.workloads[].name'

JSON: workloads [{name, about, parameters [{name, default, about}]}],
devices [{name, about}], policies [names],
functions [{name, about, source, caches}]")]
pub(crate) struct ListArgs {
    /// Write JSON, one object
    #[arg(long)]
    pub json: bool,
}

/// The names that `--device` takes.
fn device_names() -> impl TypedValueParser<Value = &'static DeviceModel> {
    let names = DEVICE_MODELS.iter().map(|model| model.name);
    PossibleValuesParser::new(names).try_map(|name| DeviceModel::named(&name))
}

/// Reads the size of the largest window, which is at least a page.
fn parse_window(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes < PAGE_BYTES => Err(format!(
            "{bytes} bytes are less than a page of {PAGE_BYTES}: to read nothing ahead, give \
             --policy off"
        )),
        bytes => Ok(bytes),
    }
}

/// Reads what chance is drawn from.
fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "`{text}` is not a seed: write a whole number from 0 to {}",
            u64::MAX
        )
    })
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
