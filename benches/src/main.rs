//! `larder-benches`: measures Larder beside its peers and prints the ratios.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use larder_benches::measure::Measure;
use larder_benches::peer::Programs;
use larder_benches::plan::Plan;
use larder_benches::results::{Origin, Results};
use larder_benches::run::Run;
use larder_benches::{floor, report, work};
use larder_testkit::tool;

/// Measures Larder beside fuse2fs, the kernel's ext4 and a FUSE server that does nothing.
#[derive(Debug, Parser)]
struct Args {
    /// A smaller tree and two runs: to try a change
    #[arg(long)]
    quick: bool,
    /// Only the measures whose name contains this; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Runs of each measure
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// The larder binary [default: the one beside this program, else from PATH]
    #[arg(long, value_name = "PATH")]
    larder: Option<PathBuf>,
    /// Where the image is made: on the storage that is to be measured
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    work: PathBuf,
    /// Where the raw results are kept
    #[arg(long, value_name = "DIR", default_value = "benches/results")]
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
    },
    /// Read a file from start to end
    #[command(hide = true)]
    ReadSequential { file: PathBuf },
    /// Read pages of a file at random
    #[command(hide = true)]
    ReadRandom {
        file: PathBuf,
        run: u64,
        threads: u32,
        reads: u32,
    },
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
            }) => {
                floor::serve(mountpoint, *size_bytes)?;
                Ok(ExitCode::SUCCESS)
            }
            Some(Part::ReadSequential { file }) => print(work::sequential(file)?),
            Some(Part::ReadRandom {
                file,
                run,
                threads,
                reads,
            }) => print(work::random(file, *run, *threads, *reads)?),
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
        let measures = self.measures()?;
        let origin = Origin::now();
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let harness = std::env::current_exe()?;
        let beside = harness.with_file_name("larder");
        let larder = self.larder.clone().or_else(|| {
            if beside.is_file() {
                Some(beside)
            } else {
                tool::find("larder")
            }
        });
        let larder = larder.map(std::path::absolute).transpose()?;
        let programs = Programs { harness, larder };
        let work = std::path::absolute(&self.work)?;
        let progress = |line: &str| eprintln!("{line}");
        let mut run = Run::new(
            plan.clone(),
            programs,
            measures.clone(),
            &work,
            interrupted,
            progress,
        )?;
        let samples = run.measure();
        drop(run);
        let results = Results::new(origin, &plan, &measures, &samples);
        print!("{}", report::table(&results, &measures, &samples));
        println!("\nraw results: {}", results.save(&self.results)?.display());
        Ok(if results.failures.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }

    fn measures(&self) -> Result<Vec<Measure>> {
        let wanted = |measure: &Measure| {
            self.only.is_empty() || self.only.iter().any(|part| measure.name().contains(part))
        };
        let measures: Vec<Measure> = Measure::ALL.into_iter().filter(wanted).collect();
        if measures.is_empty() {
            let names: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
            bail!(
                "no measure is called {}; there are {}",
                self.only.join(", "),
                names.join(", ")
            );
        }
        Ok(measures)
    }
}

fn print(result: work::ReadResult) -> Result<ExitCode> {
    println!("{}", serde_json::to_string(&result)?);
    Ok(ExitCode::SUCCESS)
}
