//! `larder lab tune`.

use super::hash::{failure, open, replaying};
use super::write_results;
use crate::options::{ResultArgs, parse_seed};
use clap::Args;
use larder_console::{Result, size};
use larder_lab::tune::{Conditions, tune};
use std::path::PathBuf;
use std::process::ExitCode;

/// Recommend hash functions, table sizes and shrinking for a trace
///
/// Replays the first half of the trace in tables of every function and several sizes. Of those than
/// which the fastest is no faster beyond noise it chooses for each cache the one that a mount has now,
/// else the smallest, and judges it on the second half beside the one that a mount has now. Prints
/// nanoseconds and links of a lookup in both, the links that chance would give, what is gained, and
/// how sure that is: in how many pairs of timed runs the new table was faster, and between what the
/// saved links lie in 95% of 1000 draws from parts of the second half. A table is changed only if it
/// is faster by more than 3% and 4.5 of the runs' median distances, in 95% of the pairs.
///
/// Last comes what to mount with. Links are the same each time, times are not: where a table is about as
/// much faster as noise may be, another run may advise otherwise.
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
are shares of 1. Null is what too little was asked to tell: lookup_ns, mad_ns and gain_time where
nothing could be timed, low and high with fewer than 10000 lookups in the second half; and saved_ns
where it is noise, break_even_ns where no miss is added, shrinking without names.")]
pub(crate) struct TuneArgs {
    /// The trace
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Read a trace that was cut short up to its last whole row group
    #[arg(long)]
    pub salvage: bool,
    /// Memory of the mount's caches, as in --cache-size
    #[arg(long, value_name = "SIZE", value_parser = size::parse_cache)]
    pub memory: u64,
    /// What a lookup of a name that misses costs, in nanoseconds, which a trace does not tell: a
    /// read of a flash disk unless given
    #[arg(long, value_name = "N", default_value_t = Conditions::MISS_NS)]
    pub miss_ns: u32,
    /// What draws are drawn from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub results: ResultArgs,
}

pub(super) fn run(args: &TuneArgs) -> Result<ExitCode> {
    let source = open(&args.trace, args.salvage)?;
    let bar = replaying(0, "{spinner} {human_pos} events replayed, {elapsed}");
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
