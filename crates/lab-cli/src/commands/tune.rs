//! `larder lab tune`.

use super::hash::{failure, open, replay_progress};
use super::write_results;
use crate::options::{ResultArgs, parse_seed};
use clap::Args;
use larder_console::{Result, size};
use larder_lab::tune::{Conditions, tune};
use std::path::PathBuf;
use std::process::ExitCode;

/// Recommend hash functions, table sizes and shrinking for a trace
///
/// Replays the first half of the trace in tables of every function and several sizes. For each cache,
/// selects among the tables that are statistically tied for fastest: the current table of a mount if it
/// is one of them, otherwise the smallest. Then replays the second half in the selected table and in the
/// current one.
///
/// Prints for both tables the nanoseconds and links of a lookup, and the links that random distribution
/// would give. For a change, prints the gain, the share of pairs of timed runs in which the new table was
/// faster, and the interval of the change in links in 95% of 1000 random samples of the second half. A
/// change is recommended only if the new table is faster by more than 3% plus 4.5 times the combined
/// deviation of both, and in at least 95% of the pairs.
///
/// The last line is the mount option. Links are the same in every run, times are not: if a gain is close
/// to the noise, another run can give another recommendation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab tune --trace mount.parquet --memory 256M
  larder mount -o $(larder lab tune --trace mount.parquet --memory 256M --json \\
      | jq -r .mount_option) disk.img /mnt/disk

JSON: source, losses {events, is_cut_short, reason}, memory_bytes, mount_option, caches [{cache,
best and today {function, bits, links, chance_links, lookup_ns, mad_ns}, lookups, gain_links
{value, low, high}, gain_time, certainty, is_worth_it}], shrinking {lookups, misses_normal,
misses_eager, saved_ns, certainty, break_even_ns, assumed_miss_ns, is_worth_it}. Gains and certainty
are fractions of 1. Null: lookup_ns, mad_ns and gain_time if there were too few lookups to measure
times; low and high with fewer than 10000 lookups in the second half; saved_ns if it is within the
noise; break_even_ns if no misses are added; shrinking if the trace has no names.")]
pub(crate) struct TuneArgs {
    /// Trace to replay
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Accept a trace that was cut short
    ///
    /// It is read up to its last complete row group.
    #[arg(long)]
    pub salvage: bool,
    /// Memory of the mount's caches, as in --cache-size
    #[arg(long, value_name = "SIZE", value_parser = size::parse_cache)]
    pub memory: u64,
    /// Cost of a missed lookup of a name, in nanoseconds
    ///
    /// A trace does not contain this cost. The default is a read from a flash disk.
    #[arg(long, value_name = "N", default_value_t = Conditions::MISS_NS)]
    pub miss_ns: u32,
    /// Seed of the random samples
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub results: ResultArgs,
}

pub(super) fn run(args: &TuneArgs) -> Result<ExitCode> {
    let source = open(&args.trace, args.salvage)?;
    let bar = replay_progress(0, "{spinner} {human_pos} events replayed, {elapsed}");
    let tick = &mut |events| bar.inc(events);
    let conditions = Conditions {
        memory_bytes: args.memory,
        miss_ns: args.miss_ns.into(),
        seed: args.seed,
    };
    let advice = tune(&source, conditions, tick);
    bar.finish_and_clear();
    let advice = advice.map_err(|error| failure(&error))?;
    write_results(&advice, &args.results, |out| {
        writeln!(out, "{}\n", advice.source)?;
        write!(out, "{}\n{}", advice.table().to_text(), advice.summary())
    })
}
