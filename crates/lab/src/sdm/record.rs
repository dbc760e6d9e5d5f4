//! Runs one user's script under strace(1), and converts its system calls to operations.

use super::Error;
use super::homes::{Homes, failed, home_name};
use super::installed::{check_commands, check_installed};
use super::processes::Processes;
use super::run::{command, run_step, unless_interrupted};
use super::script::{Needed, Script};
use crate::operations::recorder::Recorder;
use crate::operations::{Operations, SizedFile};
use crate::trace::import::strace::Calls;
use std::fs::{self, File};
use std::io::{BufReader, PipeReader};
use std::path::Path;

const STRACE: Needed = ("strace", "strace");

/// Options of strace. They select the calls on files and descriptors by all processes of a command, with
/// complete paths.
const OPTIONS: &str = "-f -y -qq -ttt -s 0 -e trace=%file,%desc,%process -o";

/// Runs one user's script in `dir` and returns its operations on the files there.
///
/// # Errors
/// Returns the errors of [`super::measure`], [`Error::Missing`] if strace is not installed, and
/// [`Error::Record`] for calls that cannot be recorded.
pub fn record(dir: &Path, seed: u64, interrupt: Option<&PipeReader>) -> Result<Operations, Error> {
    check_commands()?;
    check_installed(&[STRACE])?;
    let dir = fs::canonicalize(dir).map_err(|source| failed("find the directory", dir, source))?;
    let script = [Script::new(seed, 0)];
    let homes = Homes::new(&dir, seed, &script)?;
    let processes = Processes::new();
    let recorded = unless_interrupted(interrupt, &processes, || {
        record_in(&homes, &script[0], &processes)
    });
    let operations = recorded.map_err(|source| failed("wait for the run", &dir, source))??;
    homes.check(0, &script[0].outcomes)?;
    homes.remove()?;
    Ok(operations)
}

fn record_in(homes: &Homes, script: &Script, processes: &Processes) -> Result<Operations, Error> {
    let (directories, files) = before(homes.root(), &home_name(0))?;
    let root = homes.root().to_string_lossy().into_owned();
    let mut recorder = Recorder::new(&root, &home_name(0), &files);
    let traced = homes.root().join("strace");
    for step in &script.steps {
        let home = homes.home(0);
        let mut command = command(step, STRACE.0.as_ref(), &home)?;
        command
            .args(OPTIONS.split(' '))
            .arg(&traced)
            .arg("--")
            .arg(step.program)
            .args(&step.arguments);
        run_step(0, step, &mut command, &home, processes)?;
        let file = File::open(&traced).map_err(|source| failed("read", &traced, source))?;
        recorder.begin(step.input, step.output);
        for call in Calls::new(BufReader::new(file)) {
            let call = call.map_err(|source| failed("read", &traced, source))?;
            let taken = recorder.take(&call);
            taken.map_err(|error| Error::Record(format!("{}: {error}", step.program)))?;
        }
        recorder.end();
    }
    Ok(Operations::new(directories, files, recorder.into_done()))
}

/// Returns the directories and files below `root`, as they must exist before a replay. `home` is the name of
/// the user's home.
fn before(root: &Path, home: &str) -> Result<(Vec<String>, Vec<SizedFile>), Error> {
    let (mut directories, mut files) = (Vec::new(), Vec::new());
    let mut left = vec![
        ("shared".to_owned(), root.join("shared")),
        ("home".to_owned(), root.join(home)),
    ];
    while let Some((path, folder)) = left.pop() {
        let failed = |source| failed("list the directory", &folder, source);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            let path = format!("{path}/{}", entry.file_name().to_string_lossy());
            if metadata.is_dir() {
                left.push((path, entry.path()));
            } else {
                files.push((path, metadata.len()));
            }
        }
        directories.push(path);
    }
    // A directory's path is a prefix of the paths of its entries, so it is sorted before them.
    directories.sort_unstable();
    files.sort_unstable();
    Ok((directories, files))
}
