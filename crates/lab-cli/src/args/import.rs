//! The command line of `larder lab import`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use larder_console::Cache;
use larder_lab::trace::import::Format;
use std::path::PathBuf;

/// Make a trace of what another program recorded
///
/// Reads INPUT from front to back. Lines that tell of no lookup are left out, and counted by
/// reason, with the number of the first; where no line does, there is no trace. docs/traces.md says what each format cannot know.
#[derive(Debug, Args)]
#[command(after_help = "\
Formats:
  blkparse        blkparse(1)'s text: blocks of 4 KiB, in the buffer cache
  fio             fio's write_iolog, version 2 or 3: pages
  strace          strace -f -ttt: pages, names and inodes
  msr             the CSV files of Microsoft Research, Cambridge: blocks of 4 KiB
  oracle-general  libCacheSim's records of 24 bytes, not compressed: numbers
  keys            a key on each line: a number, two numbers, or a name

Examples:
  strace -f -ttt -o make.txt make; larder lab import strace make.txt make.parquet
  zstd -dc w92.oracleGeneral.zst | larder lab import oracle-general - w92.parquet
  ps -eo pid= | larder lab import keys - pids.parquet

JSON: output, rows {page, buffer, dentry, inode}, skipped [{reason, lines, first, text}]")]
pub(crate) struct ImportArgs {
    /// What INPUT is written in
    #[arg(value_name = "FORMAT", value_parser = formats())]
    pub format: Format,
    /// The file, or - for standard input
    pub input: PathBuf,
    /// The trace that is written; there must be no such file yet
    pub output: PathBuf,
    /// Of keys and oracle-general: the cache whose keys they are [default: by what they look like]
    #[arg(long, value_name = "NAME")]
    pub cache: Option<Cache>,
    /// Write JSON, one object, instead of the summary
    #[arg(long)]
    pub json: bool,
}

/// The names of formats.
fn formats() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.iter().map(|format| format.as_str());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Format>())
}
