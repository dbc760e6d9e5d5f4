//! The command line of `larder lab sdm`.

use super::ResultArgs;
use super::parse_seed;
use clap::Args;
use larder_console::count;
use std::path::PathBuf;

/// Run software developers' commands for many users at once, in any directory
///
/// A workload like SPEC's SDM, with which C. Lever measured hash tables in 2000: each user has a
/// script of real commands, and the result is scripts an hour. The script edits, compiles, links and
/// runs a program of 13 files, edits it again, formats a manual and spells letters: with gcc, ed,
/// nroff, spell and coreutils, which must be installed. All files are made from the seed, so that it
/// is known what must come of them: every result is checked, and a wrong one fails the run.
///
/// Prints for each number of users the average of the runs with its standard deviation, the same
/// without the first run, which warms the caches, the best run, and how long all runs took.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab sdm /mnt/disk --users 16,32,48,64,128
  larder lab sdm /dev/shm --runs 3 --json | jq '.loads[] | {users, elapsed_s}'
  larder lab sdm /mnt/disk --record sdm.operations

DIR can be on any file system that runs programs: our mount, the kernel's, tmpfs. It needs about
2 MB for each user. What is made there is removed, also after Ctrl-C.

JSON: directory, users, runs, seed, loads [{users, elapsed_s (each run)}]")]
pub(crate) struct SdmArgs {
    /// Where users work
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Users at once: numbers separated by commas, one load after the other
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "16,32,48,64,128"
    )]
    #[arg(value_parser = count::within(1..=1024_u32))]
    pub users: Vec<u32>,
    /// Runs of each load
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count::within(1..=1000_u32))]
    pub runs: u32,
    /// What all files are made from
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    /// Run one user's script once, under strace, and write what it did to the files of DIR to FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["users", "runs", "json", "csv", "output"])]
    pub record: Option<PathBuf>,
    #[command(flatten)]
    pub results: ResultArgs,
}
