//! The arguments and the help of `larder top`.

mod page;

use clap::{Args, ValueHint};
use larder_console::{Cache, count};
pub(crate) use page::Page;
use std::path::PathBuf;
use std::time::Duration;

/// Watch the activity of a mount
///
/// Shows on the terminal, with graphs of the last minutes: the caches and their hash chains, the
/// requests of the kernel with their latencies, the files and processes with the most requests, the
/// device, readahead, the network and the journal. The view refreshes every second, and needs at
/// least 80 columns and 24 rows. If standard input or standard output is not a terminal, the command
/// prints the numbers as text: once, or N times with --count N. If the image is unmounted or the
/// mount's server process does not respond, the view on a terminal shows the error, and continues.
///
/// Only root and the user who mounted the image can use this command.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys:
  1 to 9, 0                show a page (left: previous; right or Tab: next)
  up, down, Page Up, Page Down, Home, End
                           choose a cache, or a row of a list
  Enter                    show the page of the marked cache
  s, S, i                  sort by the next or previous column, invert the order
  p, Space                 pause, and continue
  +, -                     choose a longer or shorter interval
  r                        clear the graphs
  ?                        explain the keys and the numbers
  q, Esc, Ctrl-C           quit

Examples:
  larder top /mnt/disk
  larder top --interval 0.2 --cache dentry /mnt/disk
  larder top --once /mnt/disk
  larder top --once --page files /mnt/disk
  larder top --json --count 60 /mnt/disk | jq .rates.page.lookups_s

JSON, one line for each refresh:
  elapsed_s: seconds since the previous line; absent from the first line, and
    from the first line after the image was mounted again
  rates: since the previous line; absent if elapsed_s is absent. The value of a
    key that ends in _s is a rate per second.
    page, buffer, dentry, inode, with these keys each: lookups_s, hit_rate,
      links_per_hit, links_per_miss (entries of a hash chain that a lookup
      compares), inserted_s, removed_s. A ratio is null if its divisor is 0.
    readahead {windows_s (batches read ahead), pages_ahead_s, pages_used_s,
      pages_wasted_s (evicted before use)}
    device {reads_s, bytes_s, writes_s, written_bytes_s, flushes_s}
    requests, of the kernel {requests_s, errors_s, and the percentiles p50_ns,
      p90_ns and p99_ns of the times to the answers}
    server, only for an image at a URL {requests_s, failed_s, fetched_bytes_s,
      memory_bytes_s (read from fetched parts that larder keeps in memory),
      disk_bytes_s (read from the disk cache)}
  stats: the object that larder stats --json prints; longest_chain is updated
    less often for the caches that --cache does not name
  histogram: the object that larder stats --histogram CACHE --json prints for
    the cache that --cache names

Exit codes on a terminal:
  0        you quit or --count ended the command, even if the last query
           failed because the image was unmounted
  1        an error, for example if the last query sent to the mount's
           server process failed although the image was still mounted
  128 + S  signal S ended the command")]
pub(crate) struct TopArgs {
    /// Mount point
    #[arg(value_hint = ValueHint::DirPath)]
    pub mountpoint: PathBuf,
    /// Seconds between refreshes: 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    /// Page that is shown first
    ///
    /// With --once, this page is printed. Without --page, --once prints the overview and the chains of a cache.
    #[arg(long, value_enum, conflicts_with = "json")]
    pub page: Option<Page>,
    /// Cache whose chains are shown
    ///
    /// The default is the page cache. If this option is given without --page, the view starts with the
    /// page of the given cache.
    #[arg(long, value_enum)]
    pub cache: Option<Cache>,
    /// Print the numbers once, as text
    #[arg(long, conflicts_with_all = ["json", "count"])]
    pub once: bool,
    /// Print JSON, one line for each refresh
    #[arg(long)]
    pub json: bool,
    /// Stop after N refreshes
    ///
    /// The first numbers count as a refresh. On a terminal, the last refresh stays visible for one
    /// interval, like the others. Without this option, the terminal view and --json continue without a
    /// limit, and text is printed once.
    #[arg(long, value_name = "N", value_parser = count::within(1..=u64::MAX))]
    pub count: Option<u64>,
}

#[cfg(test)]
impl TopArgs {
    /// Returns the arguments of `larder top /mnt/disk`.
    pub(crate) fn for_tests() -> Self {
        Self {
            mountpoint: PathBuf::from("/mnt/disk"),
            interval: Duration::from_secs(1),
            page: None,
            cache: None,
            once: false,
            json: false,
            count: None,
        }
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("the interval must be 0.1 to 3600 seconds".to_owned()),
    }
}
