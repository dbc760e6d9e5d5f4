//! Executes one run: the scripts of all users concurrently.

use super::Error;
use super::homes::{Homes, failed};
use super::processes::Processes;
use super::script::{Script, Step};
use crate::concurrent::run_concurrently;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, PipeReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Runs `scripts` concurrently in `dir`, and returns the time until the last script finished. Stops early
/// when `interrupt` becomes readable.
pub(super) fn run(
    dir: &Path,
    seed: u64,
    scripts: &[Script],
    interrupt: Option<&PipeReader>,
) -> Result<Duration, Error> {
    let homes = Homes::new(dir, seed, scripts)?;
    let processes = Processes::new();
    let users = u32::try_from(scripts.len()).unwrap_or(u32::MAX);
    let run_all = || {
        run_concurrently(users, |user| {
            let (home, processes) = (homes.home(user), &processes);
            let steps = &scripts[user as usize].steps;
            move || run_script(user, &home, steps, processes).inspect_err(|_| processes.end())
        })
    };
    let watched = unless_interrupted(interrupt, &processes, run_all);
    let (spent, ends) = watched.map_err(|source| failed("wait for the run", dir, source))?;
    if let Some(error) = first_failure(ends) {
        return Err(error);
    }
    for (user, script) in (0..).zip(scripts) {
        homes.check(user, &script.outcomes)?;
    }
    homes.remove()?;
    Ok(spent.wall)
}

/// Returns the first error other than [`Error::Interrupted`]. If there is none, returns `Interrupted` if a script
/// was interrupted, and otherwise `None`.
fn first_failure(ends: Vec<Result<(), Error>>) -> Option<Error> {
    let (own, ended): (Vec<_>, Vec<_>) = ends
        .into_iter()
        .filter_map(Result::err)
        .partition(|error| !matches!(error, Error::Interrupted));
    own.into_iter().chain(ended).next()
}

/// Executes `work`, and terminates `processes` if `interrupt` becomes readable before `work` is done.
pub(super) fn unless_interrupted<T>(
    interrupt: Option<&PipeReader>,
    processes: &Processes,
    work: impl FnOnce() -> T,
) -> io::Result<T> {
    let Some(interrupt) = interrupt else {
        return Ok(work());
    };
    let (done, working) = io::pipe()?;
    thread::scope(|scope| {
        scope.spawn(move || {
            if is_first(interrupt, &done) {
                processes.end();
            }
        });
        let result = work();
        // Closing this end wakes the thread that polls the other end, and the thread exits.
        drop(working);
        Ok(result)
    })
}

/// Waits until one of the pipes is readable or closed, and returns whether that pipe is `first`.
fn is_first(first: &PipeReader, second: &PipeReader) -> bool {
    loop {
        let mut ready = [first, second].map(|pipe| PollFd::new(pipe, PollFlags::IN));
        match poll(&mut ready, None) {
            // A signal interrupted poll(2). If the signal terminates the run, the pipe is now readable.
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) => return !ready[0].revents().is_empty(),
        }
    }
}

fn run_script(user: u32, home: &Path, steps: &[Step], processes: &Processes) -> Result<(), Error> {
    for step in steps {
        let mut command = command(step, step.program.as_ref(), home)?;
        command.args(&step.arguments);
        run_step(user, step, &mut command, home, processes)?;
    }
    Ok(())
}

/// Returns a command that runs `program` in `home` with the input and output of `step`. Of the variables of this
/// process, the command gets only `PATH`. The caller adds the arguments.
pub(super) fn command(step: &Step, program: &Path, home: &Path) -> Result<Command, Error> {
    let open = |path: Option<&str>, how: fn(&Path) -> io::Result<File>| match path {
        None => Ok(Stdio::null()),
        Some(path) => {
            let path = home.join(path);
            let file = how(&path).map_err(|source| failed("open", &path, source));
            file.map(Stdio::from)
        }
    };
    let mut command = Command::new(program);
    command
        .current_dir(home)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", "C")
        .env("HOME", home)
        .env("TMPDIR", home.join("tmp"))
        .stdin(open(step.input, |path| File::open(path))?)
        .stdout(open(step.output, |path| File::create(path))?);
    Ok(command)
}

/// Runs the command of `step`, which must succeed. Its error output is stored in a file outside the home.
pub(super) fn run_step(
    user: u32,
    step: &Step,
    command: &mut Command,
    home: &Path,
    processes: &Processes,
) -> Result<(), Error> {
    let shown = || {
        [&[step.program.to_owned()], &*step.arguments]
            .concat()
            .join(" ")
    };
    let start = |source| Error::Start {
        user,
        command: shown(),
        source,
    };
    let error_output = home.with_extension("stderr");
    let file = File::create(&error_output).map_err(start)?;
    let status = processes.run(command.stderr(file)).map_err(start)?;
    let status = status.ok_or(Error::Interrupted)?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed {
        user,
        command: shown(),
        status,
        message: std::fs::read_to_string(error_output).unwrap_or_default(),
    })
}
