//! Runs xattr-bench on a mounted file system: processes call setxattr(2).
//!
//! # Model
//! The parent process starts P child processes. Each child creates its files, executes the sets before the measured
//! time, if any, reports that it is ready, and reads from a pipe that all children share. When all children are ready, the measured time begins, and the
//! parent writes one line for each child to the pipe. The measured time ends when the last child has reported
//! that it is done. A child exits if the pipe is closed before the start, and is killed when the parent dies.

use super::commits::KernelJournal;
use super::draws::{Draws, bytes_of, last_values};
use super::{ATTRIBUTE, BenchConfig, Case, Error, Run, VALUE_BYTES};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// A report of a child process, as a line of JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ready,
    Done,
    Failed {
        message: String,
        /// The errno, if the system returned one.
        errno: Option<i32>,
    },
}

/// A program that calls [`work`] with the [`Job`] in its last argument, as JSON.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The program.
    pub program: PathBuf,
    /// Arguments before the job.
    pub arguments: Vec<String>,
    /// A pipe that becomes readable when the bench must stop early, if that is supported.
    pub interrupt: Option<Arc<PipeReader>>,
}

/// The work of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The path of the working directory of the process, for error messages.
    pub dir: PathBuf,
    pub case: Case,
    /// Parameters of the measurement.
    pub config: BenchConfig,
    /// Number of the process.
    pub process: u32,
}

/// Executes a job, in the working directory of this process.
///
/// # Errors
/// Returns [`Error::Directory`], [`Error::Attribute`] or [`Error::Process`]. The error has already been
/// reported to the parent process.
pub fn work(job: &Job) -> Result<(), Error> {
    set_all(job).inspect_err(|error| {
        let message = error.to_string();
        let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
        let errno = source.and_then(io::Error::raw_os_error);
        // An error means that the parent process no longer waits for a report.
        let _ = send(&Answer::Failed { message, errno });
    })
}

fn set_all(job: &Job) -> Result<(), Error> {
    let Job {
        case,
        config,
        process,
        ..
    } = *job;
    let killed = set_parent_process_death_signal(Some(Signal::KILL));
    killed.map_err(|error| process_error("prepare", error.into()))?;
    let dir = PathBuf::from(process.to_string());
    let files: Vec<PathBuf> = (0..case.files).map(|file| file_of(&dir, file)).collect();
    fs::create_dir(&dir)
        .map_err(|source| directory_error("create the directory", &job.dir.join(&dir), source))?;
    for file in &files {
        File::create_new(file)
            .map_err(|source| directory_error("create the file", &job.dir.join(file), source))?;
    }
    let set = |draws: Draws| -> Result<(), Error> {
        for draw in draws {
            let file = &files[draw.file as usize];
            let value = bytes_of(draw.value, config.seed);
            setxattr(file, ATTRIBUTE, &value, XattrFlags::empty())
                .map_err(|error| attribute_error("set", &job.dir.join(file), error))?;
        }
        Ok(())
    };
    let draws = Draws::new(case, &config, process);
    let [before, measured] = draws.split(config.unmeasured(case));
    set(before)?;
    send(&Answer::Ready)?;
    // Read without a buffer, which could consume the lines of other processes.
    let mut line = [0];
    let waited = rustix::io::read(io::stdin(), &mut line);
    if waited.map_err(|error| process_error("synchronize", error.into()))? == 0 {
        return Ok(());
    }
    set(measured)?;
    send(&Answer::Done)
}

/// Runs all processes below `path`.
pub(super) fn run(
    path: &Path,
    worker: &Worker,
    case: Case,
    config: &BenchConfig,
) -> Result<Run, Error> {
    let dir = Scratch::new(path)?;
    let (reader, mut start_pipe) =
        io::pipe().map_err(|source| process_error("create a pipe for", source))?;
    let mut processes = Processes(Vec::new());
    for process in 0..case.processes {
        let job = Job {
            dir: dir.0.clone(),
            case,
            config: *config,
            process,
        };
        processes
            .0
            .push(Process::start(worker, &job, &dir.0, &reader)?);
    }
    let interrupt = worker.interrupt.as_deref();
    processes.expect(&Answer::Ready, interrupt)?;
    let journal = KernelJournal::of(&dir.0);
    let before = journal.as_ref().and_then(KernelJournal::info);
    let start = Instant::now();
    let lines = "\n".repeat(case.processes as usize);
    start_pipe
        .write_all(lines.as_bytes())
        .map_err(|source| process_error("start", source))?;
    processes.expect(&Answer::Done, interrupt)?;
    let elapsed = start.elapsed();
    let after = journal.as_ref().and_then(KernelJournal::info);
    drop(processes);
    for process in 0..case.processes {
        check(&dir.0, case, config, process)?;
    }
    dir.remove()?;
    Ok(Run {
        elapsed,
        stats: None,
        commits: after.zip(before).map(|(after, before)| after.since(before)),
    })
}

/// Verifies the last values that were set.
fn check(dir: &Path, case: Case, config: &BenchConfig, process: u32) -> Result<(), Error> {
    let dir = dir.join(process.to_string());
    for (file, last) in (0..).zip(last_values(case, config, process)) {
        let path = file_of(&dir, file);
        let mut value = [0; VALUE_BYTES];
        let found = match getxattr(&path, ATTRIBUTE, &mut value) {
            Ok(_) => Some(value),
            Err(Errno::NODATA) => None,
            Err(error) => return Err(attribute_error("read", &path, error)),
        };
        if found != last.map(|value| bytes_of(value, config.seed)) {
            let file = file as usize;
            return Err(Error::Lost { process, file });
        }
    }
    Ok(())
}

fn file_of(dir: &Path, file: u32) -> PathBuf {
    dir.join(format!("f{file}"))
}

fn send(answer: &Answer) -> Result<(), Error> {
    let sent = serde_json::to_string(answer)
        .map_err(io::Error::from)
        .and_then(|line| {
            let mut out = io::stdout().lock();
            writeln!(out, "{line}")?;
            out.flush()
        });
    sent.map_err(|source| process_error("report from", source))
}

fn directory_error(what: &'static str, path: &Path, source: io::Error) -> Error {
    let path = path.to_owned();
    Error::Directory { what, path, source }
}

fn attribute_error(what: &'static str, path: &Path, error: Errno) -> Error {
    Error::Attribute {
        what,
        path: path.to_owned(),
        source: error.into(),
    }
}

fn process_error(what: &'static str, source: io::Error) -> Error {
    Error::Process { what, source }
}

/// A directory that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Self, Error> {
        let path = parent.join(format!("xattr-bench-{}", std::process::id()));
        fs::create_dir(&path)
            .map_err(|source| directory_error("create the directory", &path, source))?;
        Ok(Self(path))
    }

    fn remove(&self) -> Result<(), Error> {
        fs::remove_dir_all(&self.0)
            .map_err(|source| directory_error("remove the directory", &self.0, source))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // After a successful run, the directory has already been removed. After a failed run, the first error
        // is reported instead of this one.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One process.
struct Process {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(
        worker: &Worker,
        job: &Job,
        dir: &Path,
        start_pipe: &PipeReader,
    ) -> Result<Self, Error> {
        let start = || -> io::Result<Self> {
            let mut child = Command::new(&worker.program)
                .args(&worker.arguments)
                .arg(serde_json::to_string(job)?)
                .current_dir(dir)
                .stdin(start_pipe.try_clone()?)
                .stdout(Stdio::piped())
                .spawn()?;
            let answers = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
            let answers = BufReader::new(answers);
            Ok(Self { child, answers })
        };
        start().map_err(|source| process_error("start", source))
    }

    fn expect(&mut self, expected: &Answer, interrupt: Option<&PipeReader>) -> Result<(), Error> {
        if let Some(interrupt) = interrupt {
            self.wait_unless(interrupt)?;
        }
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(|source| process_error("read from", source))?;
        match serde_json::from_str(&line) {
            Ok(Answer::Failed { message, errno }) => Err(Error::Reported {
                message,
                source: errno.map(io::Error::from_raw_os_error),
            }),
            Ok(answer) if answer == *expected => Ok(()),
            _ => {
                let status = self.child.wait();
                Err(Error::Worker(
                    status.map_err(|source| process_error("wait for", source))?,
                ))
            }
        }
    }

    /// Waits until an answer can be read, or fails when `interrupt` becomes readable. The buffer of the
    /// answers must be empty, since only the pipe is polled.
    fn wait_unless(&self, interrupt: &PipeReader) -> Result<(), Error> {
        loop {
            let mut ready = [
                PollFd::new(interrupt, PollFlags::IN),
                PollFd::new(self.answers.get_ref(), PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Ok(_) if ready[0].revents().is_empty() => return Ok(()),
                Ok(_) => return Err(Error::Interrupted),
                // A signal interrupted poll(2). If the signal stops the bench, the pipe is now readable.
                Err(Errno::INTR) => {}
                Err(error) => return Err(process_error("read from", error.into())),
            }
        }
    }
}

/// All processes, which are killed on drop.
struct Processes(Vec<Process>);

impl Processes {
    fn expect(&mut self, answer: &Answer, interrupt: Option<&PipeReader>) -> Result<(), Error> {
        let mut processes = self.0.iter_mut();
        processes.try_for_each(|process| process.expect(answer, interrupt))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // A process that has sent all of its answers exits by itself. An error means that the process has
            // exited.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}
