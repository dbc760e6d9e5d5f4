//! The command line of `larder lab export`.

use clap::Args;
use larder_console::Cache;
use std::path::PathBuf;

/// Write the lookups of a trace in libCacheSim's oracleGeneral format
///
/// Each lookup of one cache is a record of 24 bytes: seconds, object, size, and the number of the next
/// lookup of the same object. Two numbers of a key below 2^32 lie side by side in the object, the greater
/// ones are mixed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab export blocks.parquet blocks.oracleGeneral
  larder lab export trace.parquet names.oracleGeneral --cache dentry
  cachesim names.oracleGeneral oracleGeneral lru,s3fifo 0.1

JSON: output, records")]
pub(crate) struct ExportArgs {
    /// The trace
    pub trace: PathBuf,
    /// The file that is written; there must be no such file yet
    pub output: PathBuf,
    /// Whose lookups [default: the only cache that the trace has lookups of]
    #[arg(long, value_name = "NAME")]
    pub cache: Option<Cache>,
    /// Read a trace that was cut short up to its last whole row group
    #[arg(long)]
    pub salvage: bool,
    /// Write JSON, one object, instead of the summary
    #[arg(long)]
    pub json: bool,
}
