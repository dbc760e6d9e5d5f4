//! Replays the reads of a trace in the simulator, under each readahead policy.

mod reads;
mod report;

pub use reads::{MAX_READS, TraceReads};

use crate::run_report::RunReport;
use crate::simulator::{CpuModel, Error, Simulator, SimulatorConfig};
use larder_instruments::simulated::DeviceModel;
use larder_readahead::PolicyName;
use rayon::prelude::*;
use serde::Serialize;
use std::time::Duration;

/// The parameters of a replay, which are equal for all policies.
#[derive(Clone, Copy, Debug)]
pub struct ReplayConfig {
    /// The device that stores the files.
    pub device: DeviceModel,
    /// Memory for pages.
    pub memory_bytes: u64,
    /// The largest readahead window.
    pub readahead_max_bytes: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Processor time of each operation.
    pub cpu: CpuModel,
}

/// The results of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replay {
    /// The trace.
    pub trace: String,
    /// The device model's name.
    pub device: &'static str,
    /// Memory for pages.
    pub memory_bytes: u64,
    /// The largest readahead window.
    pub readahead_max_bytes: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Number of reads in the trace.
    pub reads: u64,
    /// Number of reads that were replayed: the first ones.
    pub replayed_reads: u64,
    /// Number of files that they read.
    pub files: usize,
    /// Number of threads that read.
    pub readers: usize,
    /// Time from the first to the last of the replayed reads in the recording, in seconds.
    pub recorded_s: f64,
    /// The reason why the end of the trace is missing, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortened: Option<String>,
    /// One result for each policy, in the requested order.
    pub policies: Vec<PolicyReplay>,
}

/// The results of a replay under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyReplay {
    /// The time that all reads took together, in seconds. Reads of different threads overlap.
    pub read_s: f64,
    /// Number of reads that had to wait for a page.
    pub waits: u64,
    /// Number of pages that the device read.
    pub pages_read: u64,
    /// Number of pages that were read ahead, and not used.
    pub pages_unused: u64,
    /// The counts and times of the simulation.
    #[serde(flatten)]
    pub report: RunReport,
}

impl PolicyReplay {
    fn new(report: RunReport) -> Self {
        let mean = Duration::from_nanos(report.latency.mean_ns);
        Self {
            read_s: mean.as_secs_f64() * crate::run_report::as_f64(report.requests),
            waits: report.pages.page_misses,
            pages_read: report.device_read_bytes / crate::simulator::PAGE_BYTES,
            pages_unused: report
                .pages
                .pages_ahead
                .saturating_sub(report.pages.pages_used),
            report,
        }
    }
}

/// Replays `reads` under each of `policies`, in parallel. Each policy starts with a cold cache. Returns, for each policy, one
/// result for each part of `reads`.
///
/// # Errors
/// Returns an error if the cache cannot be created, or if the files do not fit on the device.
pub fn replay(
    reads: &TraceReads,
    config: &ReplayConfig,
    policies: &[PolicyName],
) -> Result<Vec<Vec<PolicyReplay>>, Error> {
    let sizes = reads.file_sizes();
    let run = |policy: &PolicyName| {
        let mut simulator = Simulator::new(SimulatorConfig {
            policy: *policy,
            device: config.device,
            memory_bytes: config.memory_bytes,
            readahead_max_bytes: config.readahead_max_bytes,
            seed: config.seed,
            cpu: config.cpu,
        })?;
        let files = simulator.add_files(&sizes)?;
        // The jobs are created in each thread, because readers cannot be sent between threads.
        let parts = reads.jobs(&files);
        Ok(parts
            .map(|jobs| PolicyReplay::new(simulator.run(jobs)))
            .collect())
    };
    policies.par_iter().map(run).collect()
}

impl Replay {
    /// Replays `reads`, which must be a single part, under each of `policies`. `trace` is the name of the trace, and
    /// `shortened` is the reason why its end is missing.
    ///
    /// # Errors
    /// Returns the errors of [`replay`].
    pub fn run(
        trace: String,
        reads: &TraceReads,
        shortened: Option<String>,
        config: &ReplayConfig,
        policies: &[PolicyName],
    ) -> Result<Self, Error> {
        Ok(Self {
            policies: replay(reads, config, policies)?
                .into_iter()
                .flatten()
                .collect(),
            trace,
            device: config.device.name,
            memory_bytes: config.memory_bytes,
            readahead_max_bytes: config.readahead_max_bytes,
            seed: config.seed,
            reads: reads.total(),
            replayed_reads: reads.kept(),
            files: reads.files(),
            readers: reads.readers(),
            recorded_s: reads.recorded_time().as_secs_f64(),
            shortened,
        })
    }
}
