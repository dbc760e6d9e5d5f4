//! Measures a workload like SPEC's SDM, which Lever 2000 used: concurrent users, each with a script of real
//! commands.
//!
//! # Model
//! SDM "emulates a multi-tasking software development workload with a fixed script of commands typically used
//! by software developers, such as cc, ed, nroff, and spell". That suite is not freely available, so this
//! script was written for Larder. A user edits, compiles, links and runs a program of 13 source files and 16
//! headers. The user then edits, rebuilds and runs it again, formats a manual, and spell-checks letters. The
//! initial files differ between users. They are generated from the seed, so the expected results are known.
//! All results are verified after the run.
//!
//! A run creates new directories, starts all users at the same time, and measures the time until the last
//! user finishes. After the first run, the programs and libraries of the commands are cached.
//!
//! # Cost
//! At the start, each user has 42 files with about 107 KB in total. All users share 48 headers and one file of
//! macros. A script starts about 100 processes.

mod error;
mod homes;
mod installed;
mod processes;
mod program;
mod record;
mod report;
mod run;
mod runs;
mod script;
mod texts;

pub use error::Error;
pub use installed::check_commands;
pub use record::record;

use runs::Runs;
use script::Script;
use serde::Serialize;
use std::io::PipeReader;
use std::path::Path;

/// Parameters of the workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SdmConfig {
    /// The loads to measure, each as the number of concurrent users.
    pub users: Vec<u32>,
    /// Number of runs of each load.
    pub runs: u32,
    /// Seed of the content of all files.
    pub seed: u64,
}

/// The results of measuring in one directory.
#[derive(Clone, Debug, Serialize)]
pub struct Sdm {
    /// The directory.
    pub directory: String,
    /// The parameters.
    #[serde(flatten)]
    pub config: SdmConfig,
    /// The runs of each load.
    pub loads: Vec<Runs>,
}

/// Runs the workload in `dir`. Alternates between the loads, so that changes in the machine's speed affect
/// all of them: runs each load once, and repeats this as often as requested. Stops early when `interrupt`
/// becomes readable. Calls `run_done` after each run.
///
/// # Errors
/// Returns an error if a command of the script is not installed, or if a run fails or is interrupted. The
/// created files are removed in any case.
pub fn measure(
    dir: &Path,
    config: &SdmConfig,
    interrupt: Option<&PipeReader>,
    run_done: &mut dyn FnMut(),
) -> Result<Sdm, Error> {
    check_commands()?;
    let most = config.users.iter().copied().max().unwrap_or(0);
    let scripts: Vec<_> = (0..most)
        .map(|user| Script::new(config.seed, user))
        .collect();
    let mut loads: Vec<Runs> = config.users.iter().copied().map(Runs::none).collect();
    for _ in 0..config.runs {
        for load in &mut loads {
            let scripts = &scripts[..load.users as usize];
            let elapsed = run::run(dir, config.seed, scripts, interrupt)?;
            load.elapsed_s.push(elapsed.as_secs_f64());
            run_done();
        }
    }
    Ok(Sdm {
        directory: dir.display().to_string(),
        config: config.clone(),
        loads,
    })
}
