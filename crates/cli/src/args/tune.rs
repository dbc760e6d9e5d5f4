//! The command line of `larder lab tune`.

use super::lab::parse_seed;
use super::results::ResultArgs;
use crate::size;
use clap::Args;
use std::path::PathBuf;

/// Recommend hash functions, table sizes and shrinking for a trace
///
/// Replays the first half of the trace in tables of every function and several sizes, chooses for
/// each cache the smallest of those that are as fast as the fastest one, and judges it on the second
/// half beside the table that a mount has now. Prints nanoseconds and links of a lookup in both, the
/// links that chance would give (ideal), what is gained, and how sure that is: in how many pairs of
/// timed runs the new table was faster, and between what the saved links lie in 95% of 1000 draws from
/// parts of the second half. A table is changed only for a gain of 2% that is 95% sure.
///
/// Last comes what to mount with.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab tune --trace mount.parquet --memory 256M
  larder mount -o $(larder lab tune --trace mount.parquet --memory 256M --json \\
      | jq -r .mount_option) disk.img /mnt/disk

JSON: source, losses {events, is_cut_short, reason}, memory_bytes, mount_option, caches [{cache, best, today {function, bits, links,
lookup_ns}, ideal_links, gain_links {value, low, high}, gain_time, certainty, is_worth_it}],
shrinking {misses_normal, misses_eager, saved_ns, break_even_ns, is_worth_it}")]
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
    /// What draws are drawn from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub results: ResultArgs,
}
