//! The command line of `larder top`.

use clap::Args;
use larder_console::{Cache, count};
use std::path::PathBuf;
use std::time::Duration;

/// Watch what the caches behind a mount do
///
/// Shows hit rates, the chains of the hash tables, readahead, the device and memory, and refreshes
/// that each second. Where output is no terminal, writes it once, as text. Only the user who
/// mounted the image, and root, may ask.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys:
  up, down, left, right    choose the cache whose histogram is shown
  ?                        explain the figures
  q, Esc, Ctrl-C           leave

Examples:
  larder top /mnt/disk
  larder top --interval 0.2 --cache dentry /mnt/disk
  larder top --once /mnt/disk
  larder top --json --count 60 /mnt/disk | jq .rates.page.lookups_s

JSON, a line each time: elapsed_s (since the line before; not in the first), rates (neither;
page, buffer, dentry, inode, each lookups_s, hit_rate, links_per_hit, links_per_miss, inserted_s,
removed_s, null if there is nothing to divide by; readahead windows_s, pages_ahead_s, pages_used_s, pages_wasted_s; device
reads_s, bytes_s, writes_s, written_bytes_s, flushes_s), stats (as larder stats --json; with
longest_chain of the other caches as of a while ago) and histogram (as larder stats --histogram
CACHE --json).

Exit code: 0 when left, also after the image was unmounted; 1 if its server was lost.")]
pub(crate) struct TopArgs {
    /// The directory that an image is mounted on
    pub mountpoint: PathBuf,
    /// Seconds from one refresh to the next, 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    /// Whose histogram is shown first
    #[arg(long, value_enum, default_value = "page")]
    pub cache: Cache,
    /// Write the figures as text, once, also to a terminal
    #[arg(long, conflicts_with_all = ["json", "count"])]
    pub once: bool,
    /// Write JSON, a line at each refresh
    #[arg(long)]
    pub json: bool,
    /// End after N refreshes [default: 1 for text, else none]
    #[arg(long, value_name = "N", value_parser = count::within(1..=u64::MAX))]
    pub count: Option<u64>,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("an interval is 0.1 to 3600 seconds".to_owned()),
    }
}
