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
/// For each cache, the command first selects a table, and then compares it with the current table. The
/// current table is the default of a mount whose --cache-size equals --memory. The selection uses the
/// first half of the trace. The comparison uses the second half.
///
/// To select a table, the command measures the time of a lookup with every hash function and several
/// table sizes. A table is tied with the fastest table if their times differ by no more than the noise.
/// For two times whose median absolute deviations are a and b, the noise is 3% of the slower time, plus
/// 4.5 * sqrt(a^2 + b^2). If the current table is the fastest, or tied with it, the command selects the
/// current table. Otherwise it selects the smallest table among the fastest table and those tied with it.
///
/// For the current table and the selected table, the command prints the time of a lookup in nanoseconds
/// and the mean number of links. A link is an entry of a hash chain that a lookup compares with its key.
/// The command also prints the number of links that is expected if keys are distributed at random.
///
/// The command recommends a change only if the selected table is faster by more than the noise in the
/// second half as well, and faster in at least 95% of the pairs of timed runs. Each table is timed in 7
/// runs, and each run of one table is compared with each run of the other: 49 pairs.
///
/// For a recommended change, the command also prints the change in the number of links, with a 95%
/// confidence interval. For this interval, the second half is divided into 16 segments. Segments in which
/// lookups in the current table compared no links are omitted. The change is computed again for 1000
/// random samples. Each sample has the same number of segments, drawn with replacement. If fewer than 8
/// segments have links, or the second half has fewer than 10000 lookups, the interval is unknown, and no
/// change is recommended.
///
/// The option shrink=eager of larder mount -o tables= evicts names (dentries) early. Chains are then
/// shorter, but more lookups miss. To estimate this effect, the command replays the lookups of names
/// twice: with room for the largest number of names that the cache contained, and with room for half of
/// that number. shrink=eager is recommended only if the time that shorter chains save is at least the
/// time of the additional misses. --miss-ns sets the time of one miss.
///
/// The last line of the output is the option for larder mount. Times vary between runs of the command. If
/// a gain is close to the noise, another run can give a different recommendation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab tune --trace mount.parquet --memory 256M
  larder mount -o $(larder lab tune --trace mount.parquet --memory 256M --json \\
      | jq -r .mount_option) disk.img /mnt/disk

JSON:
  source                  origin of the trace
  losses                  {events (number of events that were lost during the recording),
                          is_cut_short (whether the end of the trace is missing), reason (why the
                          end is missing, or null)}
  memory_bytes            value of --memory
  mount_option            recommended option of larder mount
  caches [{
    cache
    best                  the selected table: {function, bits (the table has 2^bits buckets), links
                          (mean number in a lookup), chance_links (the mean that is expected if keys
                          were distributed at random), lookup_ns (time of a lookup), mad_ns (the
                          median absolute deviation of lookup_ns)}
    today                 the current table, which is the default, with the same fields as best
    lookups               number of lookups in the second half
    gain_links            decrease in links, relative to the current table (0.25: 25% fewer):
                          {value, low, high}, where low and high are the 95% confidence interval
    gain_time             decrease in time, relative to the current table (0.25: 25% less)
    certainty             share of the 49 pairs of timed runs in which best was faster
    is_worth_it           whether the change is recommended
  }]
  shrinking               effect of shrink=eager: {lookups (of names), misses_normal, misses_eager,
                          saved_ns (decrease in the time of a lookup), certainty (share of the 49
                          pairs of timed runs in which shrink=eager was faster), break_even_ns
                          (the largest cost of a miss at which shrink=eager saves time),
                          assumed_miss_ns (value of --miss-ns), is_worth_it (whether shrink=eager
                          is recommended)}

These values can be null:
  lookup_ns, mad_ns, gain_time  if there were too few lookups to measure times
  low, high                     if the second half has fewer than 10000 lookups, or if fewer than 8
                                of the 16 segments have links; no change is then recommended
  saved_ns                      if shrink=eager saves less than 10% of the time of a lookup, or was
                                faster in less than 95% of the pairs of timed runs
  break_even_ns                 if shrink=eager adds no misses
  shrinking                     if the trace has no names")]
pub(crate) struct TuneArgs {
    /// Trace to replay
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Accept a trace that was cut short or damaged
    ///
    /// The trace is read up to its first missing or damaged row group.
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
