//! The command line of `larder lab`.

use crate::size;
use clap::{Args, Subcommand, ValueEnum};
use larder::PolicyName;
use larder_block::simulated::DeviceModel;
use larder_lab::workload::Workload;
use std::path::PathBuf;
use std::str::FromStr;

/// Simulate readahead: compare policies, reproduce published results
///
/// Runs the page cache and the readahead policies of a mount over a simulated
/// device, in virtual time: nothing is mounted or read, and the same command
/// prints the same figures.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab list                          what can be simulated
  larder lab readahead --workload interleaved:streams=64 --device nvme
  larder lab reproduce wu2007              the published tables beside ours")]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    Readahead(ReadaheadArgs),
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
    #[arg(long, value_name = "NAME", default_value = "nvme", value_parser = DeviceModel::named)]
    pub device: &'static DeviceModel,
    /// Memory for pages
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse_cache)]
    pub memory: u64,
    /// Policies, separated by commas, or all
    #[arg(long, value_name = "NAMES", default_value = "all")]
    pub policy: Policies,
    /// The most that is read ahead at once
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = size::parse)]
    pub readahead_max: u64,
    /// What chance is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write JSON, one object, instead of the table
    #[arg(long)]
    pub json: bool,
    /// Write the figures to FILE, too
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a plot of the throughput to FILE, too
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Write comparison.md, .html, .csv, .json and .svg to DIR, too
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Measure published tables again, and judge ours beside them
///
/// Writes the report as Markdown, HTML, CSV and JSON with its plots, and prints how
/// many rows agree. Takes a few minutes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab reproduce wu2007
  larder lab reproduce wu2007 --output /tmp/report --quick

wu2007: F. Wu, readahead: on-demand readahead logic, Linux 2.6.23")]
pub(crate) struct ReproduceArgs {
    /// What to reproduce
    #[arg(value_enum)]
    pub document: Document,
    /// Where the report is written
    #[arg(long, value_name = "DIR", default_value = "docs/reproduce")]
    pub output: PathBuf,
    /// What chance is drawn from
    #[arg(long, value_name = "N", default_value_t = 2007)]
    pub seed: u64,
    /// Divide sizes by 32: shows the report in seconds, but is no reproduction
    #[arg(long)]
    pub quick: bool,
    /// Time the processor's part on this machine too, into wu2007-timed.md
    #[arg(long)]
    pub timed: bool,
}

/// A document with published figures.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Document {
    /// On-demand readahead
    Wu2007,
}

/// List the workloads with their parameters, the devices and the policies
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab list
  larder lab list --json | jq -r '.workloads[].name'

JSON: workloads [{name, about, parameters [{name, default, about}]}],
devices [{name, about}], policies [names]")]
pub(crate) struct ListArgs {
    /// Write JSON, one object
    #[arg(long)]
    pub json: bool,
}

/// Policies by name, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policies(pub Vec<PolicyName>);

impl FromStr for Policies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(PolicyName::ALL.to_vec()));
        }
        let mut policies = Vec::new();
        for name in text.split(',') {
            let policy = name
                .trim()
                .parse()
                .map_err(|error| format!("{error}, and all"))?;
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        Ok(Self(policies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_all_or_those_that_are_named() {
        let named = |text: &str| text.parse::<Policies>().map(|policies| policies.0);
        assert_eq!(named("all").unwrap(), PolicyName::ALL);
        assert_eq!(
            named("legacy, ondemand,legacy").unwrap(),
            [PolicyName::Legacy, PolicyName::OnDemand]
        );
        let error = named("legacy,psychic").unwrap_err();
        assert!(
            error.contains("psychic") && error.contains("ondemand"),
            "{error}"
        );
    }
}
