//! The subcommands, one module each: their arguments and their implementation.

mod advise;
mod constant;
mod device;
mod eviction;
mod export;
mod hash;
mod import;
mod interrupt;
mod list;
mod progress;
mod readahead;
mod reading;
mod record;
mod reproduce;
mod results;
mod sdm;
mod trace;
mod verify;
mod written;
pub(crate) mod xattr_bench;

use advise::AdviseArgs;
use clap::{Parser, Subcommand};
use constant::ConstantArgs;
use device::DeviceArgs;
use eviction::EvictionArgs;
use export::ExportArgs;
use hash::HashArgs;
use import::ImportArgs;
use larder_console::{Result, logging};
use list::ListArgs;
use readahead::ReadaheadArgs;
use record::RecordArgs;
use reproduce::ReproduceArgs;
use sdm::SdmArgs;
use std::process::ExitCode;
use trace::TraceArgs;
use xattr_bench::XattrBenchArgs;

/// Simulate, measure and tune caches and readahead
///
/// readahead runs the page cache and the readahead policies of a mount on a
/// simulated device, in virtual time. It mounts nothing and reads no files. The
/// same command always prints the same numbers. advise, hash and eviction replay
/// traces of cache accesses. constant, device, xattr-bench and sdm measure this
/// machine.
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
  larder lab advise disk.trace             recommend options for a mount
  larder lab hash --keys pages             compare hash functions
  larder lab eviction mount.parquet        compare replacement policies
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
    Advise(AdviseArgs),
    Device(DeviceArgs),
    Eviction(EvictionArgs),
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
        Command::Advise(args) => advise::run(args),
        Command::Device(args) => device::run(args),
        Command::Eviction(args) => eviction::run(args),
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
