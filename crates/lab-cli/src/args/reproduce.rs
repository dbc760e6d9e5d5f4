//! The command line of `larder lab reproduce`.

use super::parse_seed;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Measure published tables again, and judge ours beside them
///
/// Prints what agrees; with --output, also writes the report as Markdown, HTML, CSV and
/// JSON with its plots. wu2007 is simulated and takes about half a minute; kara2016 measures this
/// machine too, which takes about ten minutes on two processors, and the kernel's ext4
/// if it may mount it, as root. lever2000 runs recorded scripts on volumes in memory, which
/// needs mke2fs and 4 GiB, and takes some three minutes of a processor.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab reproduce wu2007
  larder lab reproduce kara2016 --output /tmp/report --quick

wu2007:   F. Wu, readahead: on-demand readahead logic, Linux 2.6.23
lever2000: C. Lever, Linux Kernel Hash Table Behavior: Analysis and Improvements, 2000
kara2016: J. Kara, ext[24]: MBCache rewrite, linux-ext4, 22 February 2016")]
pub(crate) struct ReproduceArgs {
    /// What to reproduce
    #[arg(value_enum)]
    pub document: Document,
    /// Write the report to DIR, too; replaced files are named
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// What chance is drawn from [default: the document's year]
    #[arg(long, value_name = "N", value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: Option<u64>,
    /// Sizes divided by 32, or few cases: shows the report in seconds, but is no reproduction
    #[arg(long)]
    pub quick: bool,
    /// wu2007: time the processor's part on this machine too, into wu2007-timed.md of --output
    #[arg(long, requires = "output")]
    pub timed: bool,
}

/// A document with published figures.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Document {
    /// On-demand readahead
    Wu2007,
    /// Shared attribute blocks
    Kara2016,
    /// The hash tables of four caches
    Lever2000,
}
