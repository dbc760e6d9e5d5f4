//! A workload like SPEC's SDM, which Lever 2000 measured with: users at once, each with a script of
//! real commands.
//!
//! # Model
//! SDM "emulates a multi-tasking software development workload with a fixed script of commands
//! typically used by software developers, such as cc, ed, nroff, and spell". The suite itself is not
//! free, so the script is ours: a user edits, compiles, links and runs a program of 13 files, edits it
//! again, formats a manual and spells letters. What he begins with is made from the seed, another for each
//! user, and so it is known what must come of it: after the run every result is checked.
//!
//! A run makes its directories, starts all users at once, and takes the time until the last one is
//! through. The directories are new for each run; what the commands themselves are made of is cached
//! after the first one.
//!
//! # Cost
//! Some 90 files of 400 KB for each user, and 48 headers that all share. A script starts some 100
//! processes.

mod error;
mod homes;
mod processes;
mod program;
mod prose;
mod record;
mod report;
mod run;
mod runs;
mod script;

pub use error::Error;
pub use record::record;
pub(crate) use runs::Runs;

use script::{Needed, Script};
use serde::Serialize;
use std::io::PipeReader;
use std::path::Path;

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SdmConfig {
    /// Users at once, one load after the other.
    pub users: Vec<u32>,
    /// Runs of each load.
    pub runs: u32,
    /// What all files are made from.
    pub seed: u64,
}

/// What was measured in a directory.
#[derive(Clone, Debug, Serialize)]
pub struct Sdm {
    /// Where.
    pub directory: String,
    /// What was run.
    #[serde(flatten)]
    pub config: SdmConfig,
    /// The runs of each load.
    pub loads: Vec<Runs>,
}

/// Runs the workload in `dir`: the loads in turn, as often as is asked for, so that what changes over
/// time befalls all of them. Ends early, and removes what it made, once `interrupt` can be read from.
/// Tells `run_done` of each run.
///
/// # Errors
/// [`Error`]; what was made is removed.
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

/// Sees whether all commands of the script are installed.
///
/// # Errors
/// [`Error::Missing`] if not.
pub fn check_commands() -> Result<(), Error> {
    check_installed(&script::NEEDED)
}

fn check_installed(needed: &[Needed]) -> Result<(), Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let is_missing = |command: &str| !folders.iter().any(|folder| folder.join(command).is_file());
    let missing = needed.iter().filter(|(command, _)| is_missing(command));
    let (commands, mut packages): (Vec<_>, Vec<_>) = missing.copied().unzip();
    if commands.is_empty() {
        return Ok(());
    }
    packages.dedup();
    Err(Error::Missing { commands, packages })
}
