//! `larder-benches`: measures Larder and its peers, and prints the ratios.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use larder_benches::device_path::{checkpoint, reads};
use larder_benches::hash_table;
use larder_benches::measure::Measure;
use larder_benches::origin::Origin;
use larder_benches::peer::Programs;
use larder_benches::plan::Plan;
use larder_benches::readahead::case::Case;
use larder_benches::readahead::peer::Peer as Side;
use larder_benches::readahead::streams::{self, Streams};
use larder_benches::results::Results;
use larder_benches::run::Run;
use larder_benches::writing::files;
use larder_benches::xattr::run::WORKER;
use larder_benches::{create, python, readahead, remote, report, scratch, work, xattr};
use larder_fuse::{Transport, floor};
use larder_lab::xattr_bench;
use larder_testkit::tool;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Measure Larder, fuse2fs, the kernel's ext4 and a minimal FUSE server
#[derive(Debug, Parser)]
struct Args {
    /// Use a smaller tree and fewer runs
    #[arg(long, global = true)]
    quick: bool,
    /// Run only measures whose name contains NAME; may be repeated
    #[arg(long, value_name = "NAME", global = true)]
    only: Vec<String>,
    /// Number of runs of each measure
    #[arg(long, value_name = "N", global = true)]
    runs: Option<usize>,
    /// The larder binary [default: beside this program, or in PATH]
    #[arg(long, value_name = "PATH", global = true)]
    larder: Option<PathBuf>,
    /// Directory for the image, on the storage to measure
    #[arg(
        long,
        value_name = "DIR",
        default_value = "target/bench",
        global = true
    )]
    work: PathBuf,
    /// Directory for raw results
    #[arg(
        long,
        value_name = "DIR",
        default_value = "benches/results",
        global = true
    )]
    results: PathBuf,
    #[command(subcommand)]
    part: Option<Part>,
}

/// The parts of a run that are processes of their own.
#[derive(Debug, Subcommand)]
enum Part {
    /// Serve the floor until it is unmounted
    #[command(hide = true)]
    Floor {
        mountpoint: PathBuf,
        size_bytes: u64,
        transport: Transport,
    },
    /// Read a file from start to end
    #[command(hide = true)]
    ReadSequential { file: PathBuf },
    /// Compare the readahead policies of a mount with the kernel's
    Readahead(ReadaheadArgs),
    /// Read regions of a file concurrently, or in turns
    #[command(hide = true)]
    ReadInterleaved {
        file: PathBuf,
        bytes: u64,
        readers: u32,
        request_bytes: u64,
        #[arg(long)]
        one_descriptor: bool,
    },
    /// Read the streams of the readahead benchmark
    #[command(hide = true)]
    ReadStreams {
        folder: PathBuf,
        #[command(flatten)]
        streams: Streams,
    },
    /// Write a file from start to end and sync it
    #[command(hide = true)]
    WriteSequential { file: PathBuf, bytes: u64 },
    /// Append many records of 100 bytes to a file
    #[command(hide = true)]
    WriteRecords { file: PathBuf, count: u64 },
    /// Overwrite random pages of a file and sync it
    #[command(hide = true)]
    WriteRandom { file: PathBuf, count: u32 },
    /// Write and sync small files in several processes
    #[command(hide = true)]
    WriteFiles {
        folder: PathBuf,
        processes: u32,
        files_each: u32,
    },
    /// Write and sync the small files of one process
    #[command(hide = true)]
    WriteFilesOfOne { folder: PathBuf, files: u32 },
    /// Compare the hash table with maps of other crates
    Tables {
        /// Take the recorded keys from this trace [default: record a volume]
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
    },
    /// Measure mounts of an image at a URL, over simulated links
    Remote,
    /// Run one reader of a mount of an image at a URL
    #[command(hide = true, name = remote::worker::WORKER)]
    RemoteWorker { job: String },
    /// Compare the Python package with mounts and with fsspec
    Python {
        /// Python interpreter with the packages larder and fsspec
        #[arg(
            long,
            value_name = "PATH",
            default_value = "target/tools/python/bin/python"
        )]
        python: PathBuf,
    },
    /// Compare larder create with mke2fs -d
    Create,
    /// Measure setxattr(2) by many processes
    Xattr,
    /// Run one process of the attribute benchmark
    #[command(hide = true, name = WORKER)]
    XattrWorker { job: String },
    /// Read the big file of an image without a mount
    #[command(hide = true, name = reads::WORKER)]
    ReadImage { job: String },
    /// Measure a checkpoint of a full journal
    #[command(hide = true, name = checkpoint::WORKER)]
    Checkpoint { job: String },
    /// Read random pages of a file
    #[command(hide = true)]
    ReadRandom {
        file: PathBuf,
        run: u64,
        threads: u32,
        reads: u32,
    },
}

/// Options of the readahead benchmark.
#[derive(Debug, clap::Args)]
struct ReadaheadArgs {
    /// Start one stream per second, as published, with more rounds
    ///
    /// A run takes about two and a half hours.
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Measure only this side; may be repeated
    #[arg(long, value_name = "NAME")]
    side: Vec<String>,
}

fn main() -> ExitCode {
    match Args::parse().start() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(1)
        }
    }
}

impl Args {
    fn start(self) -> Result<ExitCode> {
        match &self.part {
            Some(Part::Floor {
                mountpoint,
                size_bytes,
                transport,
            }) => {
                floor::serve(mountpoint, *size_bytes, *transport)?;
                Ok(ExitCode::SUCCESS)
            }
            Some(Part::ReadSequential { file }) => print(work::sequential(file)?),
            Some(Part::ReadRandom {
                file,
                run,
                threads,
                reads,
            }) => print(work::random(file, *run, *threads, *reads)?),
            Some(Part::Readahead(args)) => self.readahead(args),
            Some(Part::ReadInterleaved {
                file,
                bytes,
                readers,
                request_bytes,
                one_descriptor,
            }) => print(streams::interleaved(
                || streams::open(file),
                *bytes,
                *readers,
                *request_bytes,
                *one_descriptor,
            )?),
            Some(Part::ReadStreams { folder, streams }) => print(streams.run(folder)?),
            Some(Part::WriteSequential { file, bytes }) => {
                print(files::write_sequential(file, *bytes)?)
            }
            Some(Part::WriteRecords { file, count }) => print(files::append_records(file, *count)?),
            Some(Part::WriteRandom { file, count }) => {
                print(files::overwrite_random(file, *count)?)
            }
            Some(Part::WriteFiles {
                folder,
                processes,
                files_each,
            }) => print(files::write_files(folder, *processes, *files_each)?),
            Some(Part::WriteFilesOfOne { folder, files }) => {
                files::write_files_of_one(folder, *files)?;
                Ok(ExitCode::SUCCESS)
            }
            Some(Part::Tables { trace }) => self.tables(trace.clone()),
            Some(Part::Remote) => self.remote(),
            Some(Part::RemoteWorker { job }) => {
                print(serde_json::from_str::<remote::worker::Job>(job)?.run()?)
            }
            Some(Part::Python { python }) => self.python(python),
            Some(Part::Create) => self.create(),
            Some(Part::Xattr) => self.xattr(),
            Some(Part::XattrWorker { job }) => {
                xattr_bench::work(&serde_json::from_str(job)?)?;
                Ok(ExitCode::SUCCESS)
            }
            Some(Part::ReadImage { job }) => print(serde_json::from_str::<reads::Job>(job)?.run()?),
            Some(Part::Checkpoint { job }) => {
                print(serde_json::from_str::<checkpoint::Job>(job)?.run()?)
            }
            None => self.run(),
        }
    }

    fn run(&self) -> Result<ExitCode> {
        let mut plan = if self.quick {
            Plan::quick()
        } else {
            Plan::full()
        };
        plan.runs = self.runs.unwrap_or(plan.runs).max(1);
        let measures = self.wanted(Measure::ALL.to_vec(), |measure| measure.name().to_owned())?;
        let origin = Origin::now();
        let interrupted = interrupted()?;
        let programs = self.programs()?;
        let work = std::path::absolute(&self.work)?;
        let mut run = Run::new(
            plan.clone(),
            programs,
            measures.clone(),
            &work,
            interrupted,
            report_progress,
        )?;
        let samples = run.measure();
        drop(run);
        let results = Results::new(origin, &plan, &measures, &samples);
        print!("{}", report::page(&results));
        println!("\nraw results: {}", results.save(&self.results)?.display());
        Ok(exit_code(&results.failures))
    }

    fn readahead(&self, args: &ReadaheadArgs) -> Result<ExitCode> {
        if let Some(reason) = readahead::run::missing() {
            bail!("readahead cannot be measured here: {reason}");
        }
        let mut plan = match (self.quick, args.full) {
            (true, _) => readahead::plan::Plan::quick(),
            (_, true) => readahead::plan::Plan::full(),
            _ => readahead::plan::Plan::standard(),
        };
        if let Some(runs) = self.runs {
            (plan.rounds, plan.slow_rounds) = (runs.max(1), runs.max(1));
        }
        let sides = args.sides()?;
        let cases = self.wanted(Case::all(&plan), Case::name)?;
        let (origin, started) = (Origin::now(), Instant::now());
        let run = readahead::run::Run::new(
            plan.clone(),
            self.programs()?,
            (cases, sides),
            &std::path::absolute(&self.work)?,
            interrupted()?,
            report_progress,
        )?;
        let outcome = run.measure();
        drop(run);
        let results = readahead::results::Results::new(origin, plan, started, outcome);
        print!("{}", readahead::report::page(&results));
        println!("\nraw results: {}", results.save(&self.results)?.display());
        Ok(exit_code(&results.outcome.failures))
    }

    fn tables(&self, trace: Option<PathBuf>) -> Result<ExitCode> {
        let mut plan = if self.quick {
            hash_table::plan::Plan::quick()
        } else {
            hash_table::plan::Plan::full()
        };
        plan.rounds = self.runs.unwrap_or(plan.rounds).max(1);
        plan.trace = trace;
        let cases = self.wanted(hash_table::run::Case::all(), hash_table::run::Case::name)?;
        let origin = Origin::now();
        let folder = scratch::folder(&std::path::absolute(&self.work)?, "larder-tables-")?;
        let run = hash_table::run::Run {
            plan: &plan,
            cases: &cases,
            sides: &hash_table::side::Side::ALL,
            folder: folder.path(),
            interrupted: &*interrupted()?,
            progress: report_progress,
        };
        let measured = run.measure()?;
        let results = hash_table::results::Results::new(origin, plan, measured);
        print!("{}", hash_table::report::page(&results));
        println!("\nraw results: {}", results.save(&self.results)?.display());
        Ok(ExitCode::SUCCESS)
    }

    fn remote(&self) -> Result<ExitCode> {
        let mut plan = if self.quick {
            remote::plan::Plan::quick()
        } else {
            remote::plan::Plan::full()
        };
        plan.rounds = self.runs.unwrap_or(plan.rounds).max(1);
        let groups = remote::run::Group::ALL.to_vec();
        let groups = self.wanted(groups, |group| group.name().to_owned())?;
        let origin = Origin::now();
        let run = remote::run::Run {
            plan: &plan,
            groups: &groups,
            programs: &self.programs()?,
            work: &std::path::absolute(&self.work)?,
            interrupted: &*interrupted()?,
            progress: report_progress,
        };
        let outcome = run.measure()?;
        let results = remote::results::Results {
            origin,
            plan: plan.clone(),
            outcome,
        };
        print!("{}", remote::report::page(&results));
        println!("\nraw results: {}", results.save(&self.results)?.display());
        Ok(exit_code(&results.outcome.failures))
    }

    fn python(&self, interpreter: &Path) -> Result<ExitCode> {
        let mut plan = if self.quick {
            python::plan::Plan::quick()
        } else {
            python::plan::Plan::full()
        };
        plan.rounds = self.runs.unwrap_or(plan.rounds).max(1);
        let workloads = python::plan::Workload::ALL.to_vec();
        let workloads = self.wanted(workloads, |workload| workload.name().to_owned())?;
        let (origin, version) = (Origin::now(), python::run::version(interpreter)?);
        let folder = scratch::folder(&std::path::absolute(&self.work)?, "larder-python-")?;
        let run = python::run::Run {
            plan: &plan,
            workloads: &workloads,
            programs: &self.programs()?,
            python: interpreter,
            folder: folder.path(),
            interrupted: &*interrupted()?,
            progress: report_progress,
        };
        let results = python::results::Results {
            origin,
            python: version,
            outcome: run.measure()?,
            plan: plan.clone(),
        };
        print!("{}", python::report::page(&results));
        println!("\nraw results: {}", results.save(&self.results)?.display());
        Ok(exit_code(&results.outcome.failures))
    }

    fn create(&self) -> Result<ExitCode> {
        let mut plan = if self.quick {
            create::Plan::quick()
        } else {
            create::Plan::full()
        };
        plan.rounds = self.runs.unwrap_or(plan.rounds).max(1);
        let sides = self.wanted(create::Side::ALL.to_vec(), |side| side.name().to_owned())?;
        let origin = Origin::now();
        let folder = scratch::folder(&std::path::absolute(&self.work)?, "larder-create-")?;
        let run = create::Run {
            plan: &plan,
            sides: &sides,
            programs: &self.programs()?,
            folder: folder.path(),
            interrupted: &*interrupted()?,
            progress: report_progress,
        };
        let outcome = run.measure()?;
        let results = create::Results {
            origin,
            plan,
            outcome,
        };
        print!("{}", results.page());
        println!("\nraw results: {}", results.save(&self.results)?.display());
        Ok(exit_code(&results.outcome.failures))
    }

    fn xattr(&self) -> Result<ExitCode> {
        if let Some(reason) = xattr::run::missing() {
            bail!("setting attributes cannot be measured here: {reason}");
        }
        let mut plan = if self.quick {
            xattr::plan::Plan::quick()
        } else {
            xattr::plan::Plan::full()
        };
        plan.rounds = self.runs.unwrap_or(plan.rounds).max(1);
        let cases = self.wanted(plan.cases(), xattr::run::name)?;
        let origin = Origin::now();
        let folder = scratch::folder(&std::path::absolute(&self.work)?, "larder-xattr-")?;
        let run = xattr::run::Run {
            plan: &plan,
            cases: &cases,
            programs: &self.programs()?,
            folder: folder.path(),
            interrupted: &*interrupted()?,
            progress: report_progress,
        };
        let outcome = run.measure();
        let results = xattr::results::Results::new(origin, plan, outcome);
        print!("{}", xattr::report::page(&results));
        println!("\nraw results: {}", results.save(&self.results)?.display());
        Ok(exit_code(&results.outcome.failures))
    }

    /// Returns the named larder binary, or the one beside this program, or the one in `PATH`.
    fn programs(&self) -> Result<Programs> {
        let beside = Programs::beside(std::env::current_exe()?);
        let larder = self.larder.clone().or(beside.larder);
        let larder = larder.or_else(|| tool::find("larder"));
        Ok(Programs {
            larder: larder.map(std::path::absolute).transpose()?,
            ..beside
        })
    }

    /// Returns the elements of `all` whose name contains one of the requested names.
    fn wanted<T: Copy>(&self, all: Vec<T>, name: impl Fn(T) -> String) -> Result<Vec<T>> {
        let names: Vec<String> = all.iter().map(|&one| name(one)).collect();
        let is_wanted = |name: &String| {
            self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
        };
        if !names.iter().any(is_wanted) {
            let only = self.only.join(", ");
            bail!(
                "--only {only} matches nothing; available: {}",
                names.join(", ")
            );
        }
        Ok(all
            .into_iter()
            .zip(&names)
            .filter(|(_, name)| is_wanted(name))
            .map(|(one, _)| one)
            .collect())
    }
}

impl ReadaheadArgs {
    fn sides(&self) -> Result<Vec<Side>> {
        let all = Side::all();
        if let Some(name) = self
            .side
            .iter()
            .find(|name| all.iter().all(|side| side.name() != *name))
        {
            let names: Vec<&str> = all.iter().map(|side| side.name()).collect();
            bail!("unknown side '{name}'; available: {}", names.join(", "));
        }
        let wanted =
            |side: &Side| self.side.is_empty() || self.side.iter().any(|name| name == side.name());
        Ok(all.into_iter().filter(wanted).collect())
    }
}

fn exit_code(failures: &[String]) -> ExitCode {
    ExitCode::from(u8::from(!failures.is_empty()))
}

/// Returns a flag that is set by Ctrl-C, by SIGTERM, and when the terminal is closed.
fn interrupted() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

fn report_progress(line: &str) {
    eprintln!("{line}");
}

fn print(result: impl serde::Serialize) -> Result<ExitCode> {
    println!("{}", serde_json::to_string(&result)?);
    Ok(ExitCode::SUCCESS)
}
