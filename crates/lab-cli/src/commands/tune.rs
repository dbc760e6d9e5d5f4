//! The command `larder lab tune`: recommends tables and an eviction rule for the caches of a mount.

use super::hash::{failure, open, replay_progress};
use super::results::write_results;
use crate::options::{ResultArgs, parse_seed};
use clap::Args;
use larder_console::{Result, size};
use larder_lab::tune::{Conditions, tune};
use std::path::PathBuf;
use std::process::ExitCode;

/// Recommend tables and an eviction rule for the caches of a mount
///
/// The command replays the first half of the trace in tables of several sizes, with every hash function,
/// and selects one table for each cache. The current table is the one that a mount uses by default. If
/// it is statistically tied for fastest, the command selects it. Otherwise the command selects the
/// smallest of the tied tables. To confirm the selection, the command then replays the second half of
/// the trace in the selected table and in the current table.
///
/// A link is an entry of a hash chain that a lookup compares with its key. For both tables, the command
/// prints the time of a lookup in nanoseconds, the mean number of links, and the expected number of
/// links if the keys were distributed at random. If the selected table differs from the current table,
/// the command also prints how much faster a lookup is, the share of pairs of timed runs in which the
/// selected table was faster, and the 95% confidence interval of the change in links, from 1000 random
/// samples of the second half. A change is recommended only if the selected table is faster in at least
/// 95% of the pairs, and if it saves enough time: more than 3% of the lookup time in the current table,
/// plus 4.5 times the combined median absolute deviation of both times.
///
/// The option shrink=eager of larder mount -o tables= evicts names (dentries) early: chains become
/// shorter, but more lookups miss. To estimate this effect, the command replays the lookups of names in
/// a table with room for half as many names. shrink=eager is recommended only if the time that shorter
/// chains save exceeds the time of the additional misses. --miss-ns sets the time of one miss.
///
/// The last line of the output is the option for larder mount. Links are the same in every run, but
/// times vary: if a gain is close to the noise, another run can give a different recommendation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab tune --trace mount.parquet --memory 256M
  larder mount -o $(larder lab tune --trace mount.parquet --memory 256M --json \\
      | jq -r .mount_option) disk.img /mnt/disk

JSON:
  source                  origin of the trace
  losses                  {events (missing from the trace), is_cut_short, reason}
  memory_bytes            value of --memory
  mount_option            recommended option of larder mount
  caches [{
    cache
    best                  the selected table: {function, bits, links (mean of a lookup), chance_links
                          (if keys were distributed at random), lookup_ns, mad_ns (the median absolute
                          deviation of lookup_ns)}
    today                 the current table, with the same keys as best
    lookups               number of lookups in the second half
    gain_links            decrease in links, relative to the current table (0.25: 25% fewer):
                          {value, low, high}
    gain_time             decrease in time, relative to the current table (0.25: 25% less)
    certainty             share of pairs of timed runs in which best was faster
    is_worth_it           whether the change is recommended
  }]
  shrinking               effect of shrink=eager: {lookups (of names), misses_normal, misses_eager,
                          saved_ns (decrease in the time of a lookup), certainty, break_even_ns
                          (the largest cost of a miss at which eager pays), assumed_miss_ns
                          (value of --miss-ns), is_worth_it}

These values can be null: lookup_ns, mad_ns and gain_time if there were too few lookups to measure
times; low and high if the second half has fewer than 10000 lookups; saved_ns if the saved time is
within the noise; break_even_ns if eager adds no misses; shrinking if the trace has no names.")]
pub(crate) struct TuneArgs {
    /// Trace to replay
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Accept a trace that was cut short
    ///
    /// The trace is read up to its last complete row group.
    #[arg(long)]
    pub salvage: bool,
    /// Memory for the caches, like larder mount --cache-size
    #[arg(long, value_name = "SIZE", value_parser = size::parse_cache)]
    pub memory: u64,
    /// Cost of a name lookup that misses, in nanoseconds
    ///
    /// A trace does not contain this cost. The default is the assumed time of a read from an SSD.
    #[arg(long, value_name = "N", default_value_t = Conditions::DEFAULT_MISS_NS)]
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
