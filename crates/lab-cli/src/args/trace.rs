//! The command line of `larder lab trace`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Look at a trace, or save what is left of one
///
/// A trace is a Parquet file that says what caches were asked: recorded by larder mount --record or
/// larder lab record, or imported. pandas, Polars and Spark read it, too; docs/traces.md says how, what
/// each row means, and how a trace that another program writes anew stays one.
///
/// A mount's recording is written every 5 seconds, and has no footer until the mount is gone: until then
/// other programs cannot read it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab trace info disk.trace
  larder lab trace show disk.trace --rows 100
  larder lab trace salvage cut.trace saved.trace
  duckdb -c \"SELECT cache, operation, count(*) FROM 'disk.trace' GROUP BY ALL\"

Columns: time (nanoseconds), cache (0 page, 1 buffer, 2 dentry, 3 inode), operation (0 lookup,
1 insert, 2 remove), device, inode, index (page: which one; buffer: block; dentry: directory),
name_hash, hit. An inode that changes on the image is a removal and an insertion")]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    Info(TraceInfoArgs),
    Show(TraceShowArgs),
    Salvage(TraceSalvageArgs),
}

/// Say what a trace holds: events by cache, time, losses
///
/// Reads all of it. One that is cut short or damaged is read up to its last whole row group, and
/// the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab trace info disk.trace
  larder lab trace info disk.trace --json | jq '.caches.dentry'

JSON: info {source, began_unix_s, tells_changes, tables, lost, is_cut_short}, shortened, is_summed,
row_groups, events, first_ns, last_ns, caches {name: {lookups, hits, inserts, removals}}")]
pub(crate) struct TraceInfoArgs {
    /// The trace
    pub file: PathBuf,
    /// Write JSON, one object
    #[arg(long)]
    pub json: bool,
}

/// Print the first events of a trace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab trace show disk.trace
  larder lab trace show disk.trace --rows 1000000 | grep dentry")]
pub(crate) struct TraceShowArgs {
    /// The trace
    pub file: PathBuf,
    /// Events to print
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
}

/// Write what is left of a trace that is cut short or damaged to a new one
///
/// All events up to the last whole row group, of half a million events or 5 seconds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab trace salvage cut.trace saved.trace")]
pub(crate) struct TraceSalvageArgs {
    /// The trace
    pub file: PathBuf,
    /// The new trace
    pub output: PathBuf,
}
