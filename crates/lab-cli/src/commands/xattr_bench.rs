//! The command `larder lab xattr-bench`: measures how fast processes set shared attributes.

use super::interrupt::interrupt;
use super::progress::progress;
use super::results::{write, write_results};
use crate::options::{Names, NamesParser, ResultArgs, deduplicated, parse_seed};
use clap::Args;
use larder::MbCacheVariant;
use larder_console::{Failure, Result, count, print_warning};
use larder_fuse::mount_of;
use larder_instruments::mke2fs;
use larder_lab::output::Report as _;
use larder_lab::xattr_bench::{self, BenchConfig, Case, Error, Target, Worker, XattrBench};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

/// Measure how fast processes set extended attributes that files share
///
/// ext4 stores an extended attribute block once for several files, if they have equal attributes. mbcache
/// is the cache that finds these blocks. This benchmark, with which J. Kara compared implementations of
/// mbcache in 2016, runs P processes. Each process makes N setxattr calls in total, on its own F files in
/// rotation. The values are drawn at random from V different values. If --target is engine or volume,
/// threads are used instead of processes. The same seed gives the same calls on every target. After each
/// run, the command checks that every file has the value that was set last.
///
/// For one combination of P, F and V (a case), the command prints one row for each variant: the mean and
/// standard deviation of the run times; the calls per second (sets/s); the number of calls that used an
/// existing block (shares); the lookups and hits of the cache; and the number of entries that were evicted
/// because the cache was full. For several cases, the command prints one row of median
/// times for each case, with one column for each variant. The report of --output contains one table for
/// each V, laid out as in the email in which J. Kara published the results. Each cell contains one mean
/// time in seconds for each measured variant, in the order old, lru, list-lru, referenced, off, clock.
#[derive(Debug, Args)]
#[command(after_help = "\
Targets:
  engine  only the cache, in memory: entries contain block numbers, but no blocks exist; runs
          threads
  volume  a larder volume in memory, with a journal of 64 MiB; runs threads; needs mke2fs
  DIR     a directory of any mounted file system; processes call setxattr(2). --variant cannot be
          used with a directory: select the variant when mounting, with larder mount -o
          mbcache=NAME, or with mount -o no_mbcache for the kernel's ext4. Each file needs two free
          blocks and an inode. Write ./engine for a directory named engine.

Variants:
  old         mbcache of Linux before 2016: several indexes, one lock
  lru         J. Kara's rewrite with one LRU list
  list-lru    the rewrite with an LRU list for each processor
  referenced  the rewrite with a referenced bit, which Linux uses; the default of a mount
  clock       larder's own: no list, lookups without a lock
  off         no mbcache: files share no blocks

The column dropped_by_limit counts the entries that were evicted because the cache was full.

Examples:
  larder lab xattr-bench --processes 4 --files 100 --values 1000
  larder lab xattr-bench --target volume --processes 1,2,4,8 --variant referenced,off --plot x.svg
  larder lab xattr-bench --target /mnt/disk --processes 4 --json | jq '.measured[0].sets_s'
  larder lab xattr-bench --matrix --variant all --ops 5000 --output report

With --matrix and the default --ops and --runs, there are 476 million calls for each variant. On two
processors, the calls of one variant take one or two minutes with --target engine, and about an
hour with volume. Smaller values of --ops and --runs shorten this time, but not the time to create
the files of each case.

JSON: target, operations (N), runs, seed, measured [{processes, files, values, variant, mean_s,
deviation_s, sets_s (calls per second), seconds (of each run), stats (of the cache, as attributes in
larder stats --json)}]")]
pub(crate) struct XattrBenchArgs {
    /// Numbers of processes or threads [default: 1]
    ///
    /// For --processes, --files and --values, numbers are separated by commas, and 50k is 50000. All
    /// combinations of these three options are measured.
    #[arg(long, value_name = "P,...", value_delimiter = ',', value_parser = count::within(1..=1024_u32))]
    pub processes: Vec<u32>,
    /// Numbers of files for each process [default: 100]
    #[arg(long, value_name = "F,...", value_delimiter = ',', value_parser = count::within(1..=100_000_u32))]
    pub files: Vec<u32>,
    /// Numbers of different values [default: 1000]
    #[arg(long, value_name = "V,...", value_delimiter = ',', value_parser = count::within(1..=100_000_000_u32))]
    pub values: Vec<u32>,
    /// Use the published numbers for --processes, --files and --values
    ///
    /// The published numbers are 1 to 64 processes, 10 to 1000 files, and 10 to 100000 values.
    #[arg(long)]
    pub matrix: bool,
    /// Number of setxattr calls by each process
    ///
    /// 50k is 50000, and 2m is 2 million.
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = count::within(1..=u32::MAX))]
    pub ops: u32,
    /// Number of runs of each case
    ///
    /// The runs of the variants are interleaved: every variant runs once before any variant runs again.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count::within(1..=1000_u32))]
    pub runs: u32,
    /// Variants of mbcache, separated by commas, or all [default: all]
    #[arg(long, value_name = "NAMES", value_parser = NamesParser::<MbCacheVariant>::new())]
    pub variant: Option<Names<MbCacheVariant>>,
    /// Target of the benchmark: engine, volume, or a directory
    #[arg(long, value_name = "TARGET", default_value = "engine")]
    pub target: TargetName,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    #[command(flatten)]
    pub results: ResultArgs,
    /// Also plot time against number of processes in FILE
    ///
    /// Requires a single number of files and of values.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

impl XattrBenchArgs {
    /// Returns the numbers of processes: given, published or default, without duplicates.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.numbers(&self.processes, &Case::PROCESSES, 1)
    }

    /// Returns the numbers of files of each process, chosen as in [`Self::processes`].
    pub(crate) fn files(&self) -> Vec<u32> {
        self.numbers(&self.files, &Case::FILES, 100)
    }

    /// Returns the numbers of different values, chosen as in [`Self::processes`].
    pub(crate) fn values(&self) -> Vec<u32> {
        self.numbers(&self.values, &Case::VALUES, 1000)
    }

    fn numbers(&self, given: &[u32], published: &[u32], default: u32) -> Vec<u32> {
        match (given, self.matrix) {
            ([], true) => published.to_vec(),
            ([], false) => vec![default],
            (given, _) => deduplicated(given.iter().copied()),
        }
    }
}

/// The value of `--target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetName {
    /// The cache alone.
    Engine,
    /// A volume in this process.
    Volume,
    /// A directory of a mounted file system.
    Directory(PathBuf),
}

impl FromStr for TargetName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "" => return Err("the target must be engine, volume, or a directory"),
            "engine" => Self::Engine,
            "volume" => Self::Volume,
            path => Self::Directory(PathBuf::from(path)),
        })
    }
}

/// The first argument of a worker process of a bench on a directory; the second argument is the job. `WORKER` is
/// not defined as a command, so that it does not appear in help and completions.
pub(crate) const WORKER: &str = "xattr-bench-worker";

pub(super) fn run(args: &XattrBenchArgs) -> Result<ExitCode> {
    let cases = cases(args)?;
    let (name, targets) = targets(args)?;
    let config = BenchConfig {
        operations: args.ops,
        is_warm: false,
        runs: args.runs,
        seed: args.seed,
    };
    let runs = cases.len() as u64 * targets.len() as u64 * u64::from(args.runs);
    let bar = progress(runs);
    let measured = xattr_bench::measure_all(&name, &targets, &cases, &config, &mut || bar.inc(1));
    bar.finish_and_clear();
    let bench = measured.map_err(|error| failure(&error))?;
    if let (Some(path), [plot]) = (&args.plot, &*bench.plots()) {
        write("--plot", path, &plot.content)?;
    }
    let code = write_results(&bench, &args.results, |out| print_text(out, &bench))?;
    if let Some(warning) = bench.warning() {
        print_warning(&warning);
    }
    Ok(code)
}

/// Runs a worker process of a bench on a directory. `job` is its job as JSON. The parent process reports
/// errors.
pub(crate) fn work(job: &OsStr) -> ExitCode {
    let job = serde_json::from_slice(job.as_encoded_bytes());
    match job.map(|job| xattr_bench::work(&job)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn cases(args: &XattrBenchArgs) -> Result<Vec<Case>> {
    let (all_files, all_values) = (args.files(), args.values());
    if args.plot.is_some() && (all_files.len() > 1 || all_values.len() > 1) {
        return Err(Failure::usage_with_hint(
            "--plot requires a single number of files and of values",
            "write all plots with --output DIR",
        ));
    }
    if let Some(path) = &args.plot
        && path.extension() != Some(OsStr::new("svg"))
    {
        return Err(Failure::usage_with_hint(
            format!(
                "--plot writes SVG, but the name of {} does not end in .svg",
                path.display()
            ),
            "use a name that ends in .svg",
        ));
    }
    Ok(Case::matrix(&args.processes(), &all_files, &all_values))
}

/// Returns the targets, and their common name.
fn targets(args: &XattrBenchArgs) -> Result<(String, Vec<Target>)> {
    let of_variants = |target: fn(MbCacheVariant) -> Target| {
        let variants = args.variant.clone().unwrap_or_else(Names::all);
        variants.0.into_iter().map(target).collect()
    };
    match &args.target {
        TargetName::Engine => Ok(("engine".to_owned(), of_variants(Target::Engine))),
        TargetName::Volume => Ok(("volume".to_owned(), of_variants(Target::Volume))),
        TargetName::Directory(path) => {
            let target = directory(path, args.variant.is_some())?;
            Ok((describe_directory(path)?, vec![target]))
        }
    }
}

/// Returns a description of a directory: its path, and the type of its file system.
fn describe_directory(path: &Path) -> Result<String> {
    let mount = mount_of(path)?;
    let fs_type = mount.map_or_else(|| "?".to_owned(), |mount| mount.fs_type);
    Ok(format!("{} ({fs_type})", path.display()))
}

fn directory(path: &Path, has_variant: bool) -> Result<Target> {
    if has_variant {
        return Err(Failure::usage_with_hint(
            "--variant cannot be used with a directory: the variant is an option of its mount",
            "choose the variant of the mount: larder mount -o mbcache=NAME, or -o no_mbcache for the \
                 kernel's ext4",
        ));
    }
    if !path.is_dir() {
        return Err(Failure::with_hint(
            format!("{} is not a directory", path.display()),
            "--target must be engine, volume, or a directory of a mounted file system",
        ));
    }
    Ok(Target::Directory {
        path: path.to_owned(),
        worker: Worker {
            interrupt: Some(Arc::new(interrupt()?)),
            ..worker()?
        },
    })
}

/// Returns a worker that runs this program.
pub(super) fn worker() -> Result<Worker> {
    Ok(Worker {
        program: std::env::current_exe()?,
        arguments: vec![WORKER.to_owned()],
        interrupt: None,
    })
}

fn print_text(out: &mut dyn Write, bench: &XattrBench) -> io::Result<()> {
    writeln!(out, "{}", bench.title())?;
    if bench.is_matrix() {
        writeln!(
            out,
            "Medians of the runs in seconds; * = fastest of the case"
        )?;
        write!(out, "\n{}", bench.medians().to_text())?;
    } else {
        write!(out, "\n{}", bench.table().to_text())?;
    }
    if let Some(sizes) = bench.entry_sizes() {
        write!(out, "\n{}", sizes.to_text())?;
    }
    Ok(())
}

/// Converts an error of running a bench to a failure of the command.
fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    let hint = match error {
        Error::Image(mke2fs::Error::Missing) => {
            "install e2fsprogs, or use --target engine or a directory"
        }
        Error::Image(mke2fs::Error::Failed { .. }) => "reduce --processes or --files",
        Error::Directory { .. } => {
            "--target must name a writable directory with room for the files"
        }
        Error::Attribute { source, .. }
        | Error::Reported {
            source: Some(source),
            ..
        } => match source.kind() {
            io::ErrorKind::Unsupported => {
                "--target must be on a file system with extended attributes, such as ext4 with user_xattr"
            }
            io::ErrorKind::StorageFull => {
                "each file that shares no block needs one block: reduce --processes or --files"
            }
            _ => return Failure::new(message),
        },
        _ => return Failure::new(message),
    };
    Failure::with_hint(message, hint)
}
