//! The command `larder lab sdm`: runs software development commands for many concurrent users.

use super::interrupt::interrupt;
use super::progress::progress;
use super::results::{write, write_results};
use crate::options::{ResultArgs, deduplicated, parse_seed};
use clap::{Args, ValueHint};
use larder_console::{Failure, Result, count};
use larder_lab::sdm::{self, Error, SdmConfig};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run software development commands for many concurrent users
///
/// The workload resembles SPEC SDM, a benchmark with which C. Lever measured hash tables in 2000: each user
/// runs a script of real commands, and the result is scripts per hour. The script edits, compiles, links
/// and runs a program of 13 files, edits the program again, formats a manual and checks the spelling of
/// letters. The script needs gcc, ed, nroff, spell and coreutils. All files are generated from the seed, so
/// the expected output of each command is known. If an output is wrong, the run fails.
///
/// For each number of users, the command prints: the mean of the runs and its standard deviation; the same
/// two numbers without the first run, which fills the caches; the best run; and the duration of all runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab sdm /mnt/disk --users 16,32,48,64,128
  larder lab sdm /dev/shm --runs 3 --json | jq '.loads[] | {users, elapsed_s}'
  larder lab sdm /mnt/disk --record sdm.operations

DIR can be on any file system that can run programs, such as a larder mount, the kernel's ext4 or
tmpfs. Each user needs about 2 MB. All files are removed at the end, even after Ctrl-C.

JSON: directory, users, runs, seed, loads [{users, elapsed_s (seconds of each run)}]")]
pub(crate) struct SdmArgs {
    /// Directory in which the users work
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Numbers of concurrent users, separated by commas
    ///
    /// Each number of users is one load. The loads run in the given order.
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
    /// Seed of all files
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    /// Record the operations of one user to FILE
    ///
    /// The command runs the script once under strace, and writes the operations of the script on the files
    /// of DIR. It does not measure.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["users", "runs", "json", "csv", "output"])]
    pub record: Option<PathBuf>,
    #[command(flatten)]
    pub results: ResultArgs,
}

pub(super) fn run(args: &SdmArgs) -> Result<ExitCode> {
    if !args.dir.is_dir() {
        return Err(Failure::with_hint(
            format!("{} is not a directory", args.dir.display()),
            "DIR must be an existing, writable directory",
        ));
    }
    if let Some(path) = &args.record {
        let interrupt = interrupt()?;
        let operations =
            sdm::record(&args.dir, args.seed, Some(&interrupt)).map_err(|error| failure(&error))?;
        let mut text = Vec::new();
        operations.write(&mut text)?;
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        write("--record", path, &text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = SdmConfig {
        users: deduplicated(args.users.iter().copied()),
        runs: args.runs,
        seed: args.seed,
    };
    let bar = progress(config.users.len() as u64 * u64::from(args.runs));
    let measured = sdm::measure(&args.dir, &config, Some(&interrupt()?), &mut || bar.inc(1));
    bar.finish_and_clear();
    let sdm = measured.map_err(|error| failure(&error))?;
    write_results(&sdm, &args.results, |out| {
        write!(out, "{}", sdm.table().to_text())
    })
}

/// Converts an error of running the workload to a failure of the command.
fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::Missing { packages, .. } => {
            let packages = packages.join(" ");
            Failure::with_hint(message, format!("on Debian: apt-get install {packages}"))
        }
        Error::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            Failure::with_hint(message, "reduce --users: each user needs about 2 MB")
        }
        Error::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Failure::with_hint(message, "DIR must be a writable directory")
        }
        Error::Start { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Failure::with_hint(
                message,
                "DIR must be on a file system that is not mounted with noexec",
            )
        }
        _ => Failure::new(message),
    }
}
