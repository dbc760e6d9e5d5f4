//! Recommends the options of a mount for a recorded workload, with the time that they are predicted to save.
//!
//! # Model
//! The trace is read once ([`Pass`]). The stack distances of all lookups give the misses of each cache at every size
//! under LRU ([`MissCurve`]). A mount evicts by a clock instead, so the difference between the clock and LRU is
//! simulated in miniature. The reads of 16 parts of the trace are replayed on a simulated device
//! under all readahead policies, with the recommended memory. The cost of a miss follows from the device. Tables are
//! compared only if faster lookups can save 1% of the recording.
//!
//! A change is recommended only if it is predicted to save at least 1% of the recording, and if the 95% interval
//! of its saving is above zero. Otherwise the recommendation is to keep the current option.
//!
//! # Limits
//! - The prediction assumes that the program waits for each miss, and does nothing else meanwhile.
//! - In a trace without reads of files, threads are unknown, and reads are reconstructed from lookups of pages.
//! - If the trace does not distinguish evictions from invalidations, a removal from a nearly full cache is regarded as
//!   an eviction (the module `population`).
//! - A trace contains only counts of the searches for shared attributes, so `mbcache` has no curve.

mod attributes;
mod cache_curve;
mod costs;
mod current;
mod curve;
pub mod device;
mod memory;
mod notes;
mod pass;
mod population;
mod readahead;
mod reads;
mod recommendation;
mod report;
mod segment;
mod table_sample;
mod tables;
mod text;
mod waiting;

pub use cache_curve::{CacheCurve, CurvePoint};
pub use costs::Costs;
pub use current::{Current, InvalidOption};
pub use curve::MissCurve;
pub use memory::{MemoryTime, MemoryTimes};
pub use readahead::{PolicyTime, ReadaheadTimes};
pub use reads::ReadOrigin;
pub use recommendation::{Change, MIN_SHARE, Recommendation};

use crate::hash::{self, Source, TraceFile};
use crate::run_report::as_f64;
use crate::simulator::{self, CpuModel, Simulator, SimulatorConfig};
use crate::trace::Losses;
use crate::tune;
use crate::workload::Workload;
use curve::StackLimits;
use larder_instruments::simulated::DeviceModel;
use larder_readahead::PolicyName;
use larder_trace::Row;
use pass::{Observation, Pass};
use population::Capacity;
use reads::ReadSample;
use serde::Serialize;
use std::time::Duration;

/// The parameters of a recommendation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The options of the recorded mount.
    pub current: Current,
    /// The device that stores the image.
    pub device: DeviceModel,
    /// The name of the device for the report.
    pub device_name: String,
    /// The largest memory of the mount; `None` if there is no limit.
    pub memory_bytes: Option<u64>,
    /// Seed of the random samples.
    pub seed: u64,
}

/// What [`advise`] is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// This number of events was read.
    Events(u64),
    /// A readahead policy was simulated.
    Simulation,
    /// Tables are being compared.
    Tables,
}

/// The reasons why there is no recommendation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be read or replayed.
    #[error(transparent)]
    Trace(#[from] hash::Error),
    /// The reads cannot be simulated.
    #[error("cannot simulate the reads of the trace: {0}")]
    Simulation(#[from] simulator::Error),
    /// The trace has no lookups.
    #[error("{0} has no lookups, so there is nothing to recommend")]
    Empty(String),
}

/// A recommendation, and the results on which it is based.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The trace.
    pub trace: String,
    /// Number of events.
    pub events: u64,
    /// The events that are missing.
    pub losses: Losses,
    /// The recommended value of `-o`; empty if the defaults are recommended.
    pub mount_option: String,
    /// Whether no change is recommended.
    pub keeps_current: bool,
    /// The device.
    pub device: String,
    /// The recommended options.
    pub recommendation: Recommendation,
    /// What could not be examined, and what may be inaccurate; each a sentence.
    pub notes: Vec<String>,
    /// The curves of the caches that have lookups.
    pub caches: Vec<CacheCurve>,
    /// The time of a miss in each cache.
    pub costs: Costs,
    /// The predicted time of the misses for each size of the memory.
    pub memory: MemoryTimes,
    /// The simulated time of reads for each policy; `None` if the trace has no reads.
    pub readahead: Option<ReadaheadTimes>,
    /// The comparison of tables; `None` if faster lookups cannot save enough.
    pub tables: Option<tune::Advice>,
}

/// Recommends options for the mount whose caches were recorded in `trace`.
///
/// # Errors
/// Returns an error if the trace cannot be read or has no lookups.
pub fn advise(
    trace: &TraceFile,
    settings: &Settings,
    progress: &mut dyn FnMut(Progress),
) -> Result<Advice, Error> {
    let Settings {
        current,
        device,
        memory_bytes,
        seed,
        ..
    } = settings;
    let latency_ns = random_read_ns(device)?;
    let observation = observe(trace, current, latency_ns, progress)?;
    let recording_ns = observation.recording_ns;
    let simulations = readahead::Simulations::new(&observation.reads, device);
    // Returns the times, or the reason why they are unknown.
    let mut simulate = |capacity: Capacity| {
        let memory_bytes = capacity.frames * simulator::PAGE_BYTES;
        let times = simulations.run(current, memory_bytes, recording_ns, &mut || {
            progress(Progress::Simulation);
        });
        match times {
            Ok(Some(times)) => Ok(Ok(times)),
            Ok(None) => Ok(Err("the trace has no reads of files".to_owned())),
            Err(error @ simulator::Error::OutOfDevice { .. }) => Ok(Err(format!(
                "{error}; choose a larger device, such as nvme"
            ))),
            Err(error) => Err(error),
        }
    };
    let capacity = observation.capacity(current.cache_size_bytes);
    let mut readahead = simulate(capacity)?;
    let page_ns = readahead.as_ref().ok().map(|times| times.page_ns);
    let costs = Costs::new(latency_ns, page_ns).fitted(&observation, capacity);
    let memory = memory::predict(&observation, &costs, current, *memory_bytes);
    let (changes, tables) = if recording_ns == 0 {
        (timeless(), None)
    } else {
        let memory_change = memory.advise(&observation, &costs, *memory_bytes, *seed);
        if memory_change.is_recommended() {
            // Readahead cannot save the misses that the recommended memory already avoids.
            readahead = simulate(observation.capacity(memory.sufficient_bytes))?;
        }
        let (table_change, tables) = if let Some(change) = tables::negligible(&observation) {
            (change, None)
        } else {
            progress(Progress::Tables);
            tables::advise(trace, &observation, current, latency_ns, *seed)?
        };
        let changes = vec![
            memory_change,
            match &readahead {
                Ok(times) => times.advise(recording_ns, costs.reduced_by, *seed),
                Err(reason) => unknown("readahead", reason),
            },
            table_change,
            attributes::advise(trace.info().attributes.as_ref(), recording_ns),
        ];
        (changes, tables)
    };
    let readahead = readahead.ok();
    let recommendation = Recommendation::new(current.options.clone(), recording_ns, changes);
    Ok(Advice {
        trace: trace.title(),
        events: observation.events,
        losses: trace.losses(),
        mount_option: recommendation.mount_option().unwrap_or_default(),
        keeps_current: recommendation.keeps_current(),
        device: settings.device_name.clone(),
        notes: notes::notes(trace, &observation, &costs, readahead.as_ref()),
        caches: cache_curve::curves(&observation, trace.has_changes(), capacity),
        recommendation,
        costs,
        memory,
        readahead,
        tables,
    })
}

/// Returns the recommendation for a part of the advice, such as readahead, for which the trace has no data.
fn unknown(part: &'static str, reason: &str) -> Change {
    Change {
        part,
        options: Vec::new(),
        saved_ns: None,
        reason: reason.to_owned(),
    }
}

/// Returns the recommendations for a trace without times.
fn timeless() -> Vec<Change> {
    let reason = "the trace has no times, so the duration of the recording is unknown";
    let parts = ["memory", "readahead", "tables", "mbcache"];
    parts.map(|part| unknown(part, reason)).to_vec()
}

/// Reads the trace.
fn observe(
    trace: &TraceFile,
    current: &Current,
    latency_ns: f64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Observation, Error> {
    let latency = Duration::from_secs_f64(latency_ns / 1e9);
    let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    let reads = ReadSample::new(trace.info(), trace.events(), latency_ns);
    let limits = StackLimits::DEFAULT;
    let mut pass = Pass::new(trace.events(), current.cache_size_bytes, limits, reads);
    trace.read_batches(&mut |batch, events| {
        let mut read = 0;
        for row in batch.rows() {
            if matches!(row, Row::Cache(_)) {
                if read == events {
                    break;
                }
                read += 1;
            }
            pass.add_row(&row);
        }
        progress(Progress::Events(events as u64));
        true
    })?;
    let observation = pass.finish();
    if observation.counts.iter().all(|counts| counts.lookups == 0) {
        return Err(Error::Empty(trace.title()));
    }
    Ok(observation)
}

/// Returns the mean time of a random read of a page from the device, in nanoseconds.
fn random_read_ns(device: &DeviceModel) -> Result<f64, simulator::Error> {
    /// The reads. With 1000 of them, the mean deviates by a few percent.
    const READS: &str = "random:file=1G,requests=1000";
    let mut simulator = Simulator::new(SimulatorConfig {
        policy: PolicyName::Off,
        device: *device,
        memory_bytes: 64 << 20,
        readahead_max_bytes: simulator::PAGE_BYTES,
        seed: 1,
        cpu: CpuModel::default(),
    })?;
    let Ok(workload) = Workload::named(READS) else {
        return Ok(0.0);
    };
    let files = simulator.add_files(&workload.file_sizes())?;
    let report = simulator.run(workload.jobs(&files, 1));
    Ok(report.elapsed.as_secs_f64() * 1e9 / as_f64(report.requests.max(1)))
}
