//! A run: several rounds of all workloads. In each workload the sides take turns.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::child;
use crate::evict::make_cold;
use crate::origin::first_line;
use crate::outcome::Outcome;
use crate::peer::{Mounted, Programs};
use crate::plan::Plan as TreePlan;
use crate::python::plan::{Plan, Side, Workload};
use crate::python::results::{Sample, Times};
use crate::tree::{BIG_FILE, PAGE_BYTES, Tree};
use crate::user::User;

const WORKER: &str = include_str!("worker.py");
/// The time after which a worker is killed.
const DEADLINE: Duration = Duration::from_mins(10);

/// The parameters of a run.
#[derive(Debug)]
pub struct Run<'r> {
    /// The sizes.
    pub plan: &'r Plan,
    /// The workloads.
    pub workloads: &'r [Workload],
    /// The programs of the mounts.
    pub programs: &'r Programs,
    /// A Python interpreter with the package and fsspec.
    pub python: &'r Path,
    /// The directory of the image, of mount points and logs.
    pub folder: &'r Path,
    /// Ends the run early when it is set, with everything unmounted.
    pub interrupted: &'r AtomicBool,
    /// Called with the name of each workload.
    pub progress: fn(&str),
}

/// Returns the version of the interpreter `python`.
///
/// # Errors
/// It cannot be run, or does not have the package and fsspec.
pub fn version(python: &Path) -> Result<String> {
    let program = "import fsspec, larder, platform; print('Python', platform.python_version())";
    let mut command = Command::new(python);
    command
        .args(["-c", program])
        .stderr(std::process::Stdio::null());
    first_line(&mut command)
        .with_context(|| format!("{} does not have the package larder", python.display()))
}

/// What a worker runs.
#[derive(Debug, Serialize)]
struct Job<'j> {
    side: &'j str,
    workload: &'j str,
    source: &'j Path,
    paths: &'j Path,
    reads: u32,
    seed: usize,
}

/// The files of all sides.
#[derive(Debug)]
struct Files {
    tree: Tree,
    zip: PathBuf,
    /// A file with the paths of all small files.
    paths: PathBuf,
    /// The size of all small files.
    bytes: u64,
}

impl Run<'_> {
    /// Runs everything. If a side fails, the failure is recorded, and the run continues.
    ///
    /// # Errors
    /// The image or the archive cannot be made.
    pub fn measure(&self) -> Result<Outcome<Sample>> {
        let files = self.files()?;
        let mut outcome = Outcome::default();
        let mut sides = Side::ALL.to_vec();
        sides.retain(|side| {
            let missing = side.peer().and_then(|peer| self.programs.missing(peer));
            let skipped = missing.map(|why| format!("{}: {why}", side.name()));
            let is_possible = skipped.is_none();
            outcome.skipped.extend(skipped);
            is_possible
        });
        for round in 0..self.plan.rounds {
            for &workload in self.workloads {
                let (name, rounds) = (workload.name(), self.plan.rounds);
                (self.progress)(&format!("round {} of {rounds}: {name}", round + 1));
                for turn in 0..sides.len() {
                    if self.interrupted.load(Ordering::Relaxed) {
                        outcome.failures.push("interrupted".to_owned());
                        return Ok(outcome);
                    }
                    let side = sides[(turn + round) % sides.len()];
                    match self.measure_side(&files, workload, side, round) {
                        Ok(sample) => outcome.samples.push(sample),
                        Err(error) => outcome
                            .failures
                            .push(format!("{name} of {}: {error:#}", side.name())),
                    }
                }
            }
        }
        Ok(outcome)
    }

    fn files(&self) -> Result<Files> {
        (self.progress)("making the image and the archive");
        let plan = TreePlan {
            files: self.plan.files,
            big_file_bytes: self.plan.big_file_bytes,
            ..TreePlan::full()
        };
        let tree = Tree::make(self.folder, &plan)?;
        let (zip, paths) = (self.folder.join("tree.zip"), self.folder.join("paths.json"));
        let fs = larder::open(&tree.image)?;
        let (mut names, mut bytes) = (Vec::new(), 0);
        for entry in fs.walk("/")? {
            let entry = entry?;
            let path = entry.path();
            let name = path.strip_prefix("/")?.to_string_lossy().into_owned();
            let metadata = entry.metadata()?;
            if metadata.is_file() && name != BIG_FILE {
                names.push(name);
                bytes += metadata.size_bytes;
            }
        }
        std::fs::write(&paths, serde_json::to_vec(&names)?)?;
        self.run_worker(&Job {
            side: "make-zip",
            workload: "",
            source: &tree.image,
            paths: &zip,
            reads: 0,
            seed: 0,
        })?;
        Ok(Files {
            tree,
            zip,
            paths,
            bytes,
        })
    }

    fn measure_side(
        &self,
        files: &Files,
        workload: Workload,
        side: Side,
        round: usize,
    ) -> Result<Sample> {
        let is_zip = side == Side::FsspecZip;
        let file = if is_zip {
            &files.zip
        } else {
            &files.tree.image
        };
        make_cold(file)?;
        let mounted = side
            .peer()
            .map(|peer| Mounted::new(self.programs, peer, User::Own, &files.tree, self.folder));
        let mounted = mounted.transpose()?;
        let output = self.run_worker(&Job {
            side: side.name(),
            workload: workload.name(),
            source: mounted.as_ref().map_or(file, Mounted::root),
            paths: &files.paths,
            reads: if is_zip {
                self.plan.zip_reads
            } else {
                self.plan.reads
            },
            seed: round,
        })?;
        let times: Times = serde_json::from_slice(&output)?;
        let expected_bytes = match workload {
            Workload::Random => u64::from(times.count) * PAGE_BYTES as u64,
            Workload::Files => files.bytes,
        };
        let bytes = times.bytes;
        ensure!(
            bytes == expected_bytes,
            "{bytes} bytes were read instead of {expected_bytes}"
        );
        Ok(Sample {
            workload,
            side,
            times,
        })
    }

    fn run_worker(&self, job: &Job<'_>) -> Result<Vec<u8>> {
        let mut command = Command::new(self.python);
        command.args(["-c", WORKER, &serde_json::to_string(job)?]);
        let log = self.folder.join("worker.log");
        let output = child::output_of(DEADLINE, command, &log);
        let (_, output) = output.with_context(|| child::tail(&log))?;
        Ok(output)
    }
}
