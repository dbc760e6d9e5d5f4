//! A run: several rounds of all cases. In each case the peers take turns, in an order that rotates from
//! round to round.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use larder_testkit::requirement::Requirement;
use tempfile::TempDir;

use crate::child;
use crate::database;
use crate::evict::evict;
use crate::outcome::Outcome;
use crate::peer::Programs;
use crate::readahead::case::{Case, INTERLEAVED_READERS, Pattern, Workload};
use crate::readahead::cgroup::{Cgroup, Limits};
use crate::readahead::device::Reads;
use crate::readahead::image;
use crate::readahead::oltp;
use crate::readahead::peer::{Mounted, Peer};
use crate::readahead::plan::{Disk, Plan, REQUEST_BYTES, SLOW_DISK};
use crate::readahead::results::Sample;
use crate::readahead::sampler;
use crate::readahead::tools;
use crate::scratch;
use crate::tree::BIG_FILE;
use crate::work::{Reading, result_of};

/// The name under which the programs of a database are reported as missing.
const DATABASE: &str = "a database";

/// The result of a workload.
struct Done {
    reading: Reading,
    /// The transactions of a database.
    transactions: Option<u64>,
    /// The reads of the device by the end of each second, if they were sampled.
    device_by_second: Vec<Reads>,
}

impl Done {
    fn of(reading: Reading) -> Self {
        Self {
            reading,
            transactions: None,
            device_by_second: Vec::new(),
        }
    }
}

/// A run of the readahead benches.
#[derive(Debug)]
pub struct Run {
    plan: Plan,
    programs: Programs,
    cases: Vec<Case>,
    peers: Vec<Peer>,
    interrupted: Arc<AtomicBool>,
    progress: fn(&str),
    folder: TempDir,
    image: PathBuf,
}

/// Returns the reason why this machine cannot run the benches, if there is one.
#[must_use]
pub fn missing() -> Option<String> {
    let needed = [
        Requirement::Tool("mke2fs"),
        Requirement::Tool("losetup"),
        Requirement::LoopMount,
    ];
    let missing = needed.into_iter().find_map(Requirement::missing);
    missing.or_else(Cgroup::missing)
}

impl Run {
    /// Builds the image in a new directory below `work_folder`. When `interrupted` is set, the run ends
    /// early, with everything unmounted.
    pub fn new(
        plan: Plan,
        programs: Programs,
        (cases, peers): (Vec<Case>, Vec<Peer>),
        work_folder: &Path,
        interrupted: Arc<AtomicBool>,
        progress: fn(&str),
    ) -> Result<Self> {
        let folder = scratch::folder(work_folder, "larder-readahead-")?;
        let is_oltp = |case: &Case| matches!(case.workload, Workload::Oltp(_));
        let table = if cases.iter().any(is_oltp) && database::missing().is_none() {
            progress("creating the table of the database");
            Some(oltp::create(folder.path(), &plan.oltp)?)
        } else {
            None
        };
        progress("creating the image");
        let image = image::make(folder.path(), &plan, table.as_deref())?;
        Ok(Self {
            plan,
            programs,
            cases,
            peers,
            interrupted,
            progress,
            folder,
            image,
        })
    }

    /// Runs everything. If a side fails, the failure is recorded, and the run continues.
    #[must_use]
    pub fn measure(&self) -> Outcome<Sample> {
        let mut outcome = Outcome::default();
        let cases = self.possible_cases(&mut outcome);
        let peers: Vec<Peer> = self.possible_peers(&mut outcome);
        let rounds = self.plan.rounds.max(self.plan.slow_rounds);
        for round in 0..rounds {
            for case in &cases {
                if round >= self.plan.rounds_on(case.disk) {
                    continue;
                }
                (self.progress)(&format!("round {} of {rounds}: {}", round + 1, case.name()));
                for turn in 0..peers.len() {
                    if self.interrupted.load(Ordering::Relaxed) {
                        outcome.failures.push("interrupted".to_owned());
                        return outcome;
                    }
                    let peer = peers[(turn + round) % peers.len()];
                    if !case.workload.is_measured_on(peer) {
                        continue;
                    }
                    match self.measure_peer(*case, peer, round) {
                        Ok(samples) => outcome.samples.extend(samples),
                        Err(error) => {
                            let what = format!("{} of {}: {error:#}", case.name(), peer.name());
                            outcome.failures.push(what);
                        }
                    }
                }
            }
        }
        outcome
    }

    fn possible_cases(&self, outcome: &mut Outcome<Sample>) -> Vec<Case> {
        let program = |case: &Case| match case.workload {
            Workload::Fio(_) => Some("fio"),
            Workload::Sysbench(_) => Some("sysbench"),
            Workload::Oltp(_) => Some(DATABASE),
            _ => None,
        };
        let missing = |name| match name {
            DATABASE => database::missing(),
            name => Requirement::Tool(name).missing(),
        };
        for name in ["fio", "sysbench", DATABASE] {
            let wanted = self.cases.iter().any(|case| program(case) == Some(name));
            if let (true, Some(reason)) = (wanted, missing(name)) {
                outcome
                    .skipped
                    .push(format!("cases that use {name}: {reason}"));
            }
        }
        let cases = self.cases.iter().copied();
        cases
            .filter(|case| program(case).is_none_or(|name| missing(name).is_none()))
            .collect()
    }

    fn possible_peers(&self, outcome: &mut Outcome<Sample>) -> Vec<Peer> {
        let missing = self.programs.missing(crate::peer::Peer::LarderDev);
        if let Some(reason) = &missing {
            outcome.skipped.push(format!("larder: {reason}"));
        }
        let peers = self.peers.iter().copied();
        peers
            .filter(|peer| *peer == Peer::Kernel || missing.is_none())
            .collect()
    }

    /// Mounts the image with `peer`, with empty caches, and runs the workload of `case`. Returns one
    /// sample for each name of the case.
    fn measure_peer(&self, case: Case, peer: Peer, round: usize) -> Result<Vec<Sample>> {
        evict(&self.image)?;
        let limits = Limits {
            memory_bytes: case.workload.memory_bytes(case.disk, &self.plan),
            throttle: (case.disk == Disk::Slow).then_some(SLOW_DISK),
        };
        let folder = self.folder.path();
        let mounted = Mounted::new(&self.programs, peer, &self.image, limits, folder)?;
        let mut names = vec![case.name()];
        if case.workload == Workload::Fio(Pattern::Read) {
            names.push(case.second_name());
        }
        let mut samples = Vec::new();
        for name in names {
            let before = mounted.device().reads()?;
            let Done {
                reading,
                transactions,
                device_by_second,
            } = self.work(case, &mounted)?;
            let wrong = reading.wrong_pages;
            ensure!(wrong == 0, "{wrong} pages have wrong content");
            samples.push(Sample {
                case: name,
                disk: case.disk,
                peer: peer.name().to_owned(),
                round,
                bytes: reading.bytes,
                seconds: reading.seconds,
                device: mounted.device().reads()?.since(before),
                transactions,
                bytes_by_second: reading.bytes_by_second,
                device_by_second,
            });
        }
        Ok(samples)
    }

    fn work(&self, case: Case, mounted: &Mounted) -> Result<Done> {
        let sizes = self.plan.sizes(case.disk);
        let large_file = mounted.root().join(BIG_FILE);
        let log = self.log();
        let program = |name: &str| anyhow::Ok(mounted.command(&child::find(name)?));
        let alone = |reading| Ok(Done::of(reading));
        match case.workload {
            Workload::Fio(pattern) => {
                let read = tools::fio(program("fio")?, pattern, sizes, &large_file, &log)?;
                let (bytes, wanted) = (read.bytes, pattern.bytes(sizes));
                ensure!(bytes == wanted, "fio read {bytes} of {wanted} bytes");
                alone(read)
            }
            Workload::Sysbench(threads) => {
                let folder = self.folder.path();
                let command = program("sysbench")?;
                alone(tools::sysbench(
                    command,
                    threads,
                    sizes,
                    &large_file,
                    folder,
                    &log,
                )?)
            }
            Workload::Interleaved | Workload::InterleavedOneDescriptor => {
                let mut command = mounted.command(&self.programs.harness);
                command.arg("read-interleaved").arg(&large_file).args([
                    sizes.interleaved_bytes.to_string(),
                    INTERLEAVED_READERS.to_string(),
                    REQUEST_BYTES.to_string(),
                ]);
                if case.workload == Workload::InterleavedOneDescriptor {
                    command.arg("--one-descriptor");
                }
                alone(result_of(child::DEADLINE, command, &log)?)
            }
            Workload::Streams | Workload::Thrashing => {
                let (command, duration) = self.streams_command(case.workload, mounted);
                let deadline = duration + child::DEADLINE;
                let device = mounted.device();
                let (reading, device_by_second) =
                    sampler::while_running(device, || result_of(deadline, command, &log))?;
                Ok(Done {
                    device_by_second,
                    ..Done::of(reading)
                })
            }
            Workload::Oltp(threads) => {
                let folder = self.folder.path();
                let done = oltp::run(mounted, threads, &self.plan.oltp, folder)?;
                let reading = Reading {
                    seconds: done.seconds,
                    ..Reading::default()
                };
                Ok(Done {
                    transactions: Some(done.count),
                    ..Done::of(reading)
                })
            }
        }
    }

    /// Returns the command that reads the streams, and how long it reads.
    fn streams_command(&self, workload: Workload, mounted: &Mounted) -> (Command, Duration) {
        let (duration, request_bytes, starts, pace) = if workload == Workload::Thrashing {
            let paced = self.plan.paced;
            let (starts, pace) = (paced.starts_per_second, paced.bytes_per_second);
            (
                self.plan.paced_duration(),
                paced.request_bytes,
                starts,
                pace,
            )
        } else {
            let duration = Duration::from_secs(self.plan.unpaced_seconds);
            (duration, REQUEST_BYTES, 0, 0)
        };
        let mut command = mounted.command(&self.programs.harness);
        command.arg("read-streams").arg(mounted.root()).args([
            self.plan.streams.to_string(),
            duration.as_millis().to_string(),
            request_bytes.to_string(),
            starts.to_string(),
            pace.to_string(),
        ]);
        (command, duration)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("work.log")
    }
}
