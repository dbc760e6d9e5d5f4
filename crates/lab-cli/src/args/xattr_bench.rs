//! The command line of `larder lab xattr-bench`.

use super::names::{Names, NamesParser};
use super::parse_seed;
use super::results::ResultArgs;
use clap::Args;
use larder::MbCacheVariant;
use larder_console::count;
use larder_lab::xattr_bench::Case;
use std::path::PathBuf;
use std::str::FromStr;

/// Measure how fast processes set attributes that other files have too
///
/// Each of P processes sets the attribute of its F files, one after the other, N times, to
/// values drawn from V: the bench with which J. Kara's letter of 2016 compares versions of
/// mbcache. The same seed gives the same operations on every target. After each run, every
/// file is checked for the value that was set last.
///
/// Prints the average of the runs, how they scatter, and what the cache did: files that were
/// given a block that was there already (shares), lookups, hits, entries dropped by the limit.
/// For several cases it prints the letter's tables, one for each V: the averages in seconds, in
/// the order old,lru,list-lru,referenced,off,clock.
#[derive(Debug, Args)]
#[command(after_help = "\
Targets:
  engine  the cache alone, by threads: searching, comparing and counting blocks that are numbers
  volume  an ext4 without a journal in this process's memory, by threads; needs mke2fs
  DIR     a directory of any mounted file system, by setxattr(2) in processes. Its mount has
          chosen the variant: larder mount -o mbcache=NAME, or no_mbcache for the kernel's ext4.
          Two blocks and an inode for each file must be free. (./engine is a directory.)

Examples:
  larder lab xattr-bench --processes 4 --files 100 --values 1000
  larder lab xattr-bench --target volume --processes 1,2,4,8 --variant referenced,off --plot x.svg
  larder lab xattr-bench --target /mnt/disk --processes 4 --json | jq '.measured[0].sets_s'
  larder lab xattr-bench --matrix --variant all --ops 5000 --output report

The whole matrix is 476 million sets for each variant. On two processors they take a minute or two
with --target engine and about an hour with volume; --ops and --runs shorten it, but
the files are made for each case, whatever they are.

JSON: target, operations, runs, seed, measured [{processes, files, values, variant, mean_s,
deviation_s, sets_s, seconds (each run), stats}]")]
pub(crate) struct XattrBenchArgs {
    /// Processes, or threads: numbers separated by commas, as are the next two, and 50k is 50000
    /// [default: 1]
    #[arg(long, value_name = "P,...", value_delimiter = ',', value_parser = count::within(1..=1024_u32))]
    pub processes: Vec<u32>,
    /// Files of each process: numbers separated by commas [default: 100]
    #[arg(long, value_name = "F,...", value_delimiter = ',', value_parser = count::within(1..=100_000_u32))]
    pub files: Vec<u32>,
    /// Values to draw from: numbers separated by commas [default: 1000]
    #[arg(long, value_name = "V,...", value_delimiter = ',', value_parser = count::within(1..=100_000_000_u32))]
    pub values: Vec<u32>,
    /// The letter's numbers where none are given: 1 to 64 processes, 10 to 1000 files, 10 to 100000 values
    #[arg(long)]
    pub matrix: bool,
    /// Sets by each process: 50k is 50000, 2m is 2 million
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = count::within(1..=u32::MAX))]
    pub ops: u32,
    /// Runs of each case, of all variants in turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count::within(1..=1000_u32))]
    pub runs: u32,
    /// How equal attributes are found: names separated by commas, or all [default: all]
    #[arg(long, value_name = "NAMES", value_parser = NamesParser::<MbCacheVariant>::new())]
    pub variant: Option<Names<MbCacheVariant>>,
    /// What is driven: engine, volume, or a directory
    #[arg(long, value_name = "TARGET", default_value = "engine")]
    pub target: TargetName,
    /// What chance is drawn from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub results: ResultArgs,
    /// Write a plot of time over processes to FILE, too; for one number of files and of values
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

impl XattrBenchArgs {
    /// What is given, each once, or stands for it.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.numbers(&self.processes, &Case::PROCESSES, 1)
    }

    /// As [`Self::processes`].
    pub(crate) fn files(&self) -> Vec<u32> {
        self.numbers(&self.files, &Case::FILES, 100)
    }

    /// As [`Self::processes`].
    pub(crate) fn values(&self) -> Vec<u32> {
        self.numbers(&self.values, &Case::VALUES, 1000)
    }

    fn numbers(&self, given: &[u32], of_letter: &[u32], default: u32) -> Vec<u32> {
        match (given, self.matrix) {
            ([], true) => of_letter.to_vec(),
            ([], false) => vec![default],
            (given, _) => {
                let mut once = Vec::new();
                for number in given {
                    if !once.contains(number) {
                        once.push(*number);
                    }
                }
                once
            }
        }
    }
}

/// What `--target` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetName {
    /// The cache alone.
    Engine,
    /// A volume in this process.
    Volume,
    /// A directory.
    Directory(PathBuf),
}

impl FromStr for TargetName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "" => return Err("a target is engine, volume, or a directory"),
            "engine" => Self::Engine,
            "volume" => Self::Volume,
            path => Self::Directory(PathBuf::from(path)),
        })
    }
}
