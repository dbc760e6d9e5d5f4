//! Simulates readahead policies on the reads of a trace, and recommends the fastest one.
//!
//! # Model
//! The reads are replayed on a simulated device, once for each policy. The best policy is also replayed with smaller
//! and larger windows. All runs have the same pauses between the reads of each thread, and begin with a cold cache of
//! the size that the mount has for pages. A read that hits takes the same time with all policies. So policies differ only
//! in the reads that wait for the device, and in their waits. The parts of the trace are replayed one after the other. The bootstrap resamples these parts.
//!
//! While reads of several threads overlap, the program waits only once. Therefore the sum of the simulated durations is
//! multiplied by a factor from the recording: the time in which at least one read was in progress, divided by the sum
//! of the durations of all reads.

use super::current::Current;
use super::reads::{ReadOrigin, ReadSample};
use super::recommendation::{Change, is_worth_it};
use crate::output::counted;
use crate::readahead_replay::{PolicyReplay, ReplayConfig, replay};
use crate::run_report::{as_f64, ratio};
use crate::simulator::{CpuModel, Error};
use crate::statistics::{Interval, percentile_range};
use crate::workload::chance::generator;
use larder_instruments::simulated::{DeviceModel, ServiceModel};
use larder_readahead::PolicyName;
use rayon::prelude::*;
use serde::Serialize;

/// The windows that are tried with the best policy, in bytes.
const WINDOWS: [u64; 4] = [128 << 10, 512 << 10, 1 << 20, 4 << 20];

/// The smallest and the largest memory of a simulation. The reads of all parts together have at most about 4 GiB.
const MIN_MEMORY: u64 = 1 << 20;
const MAX_MEMORY: u64 = 8 << 30;

/// A confidence interval is computed only if at least this number of parts have reads.
const MIN_PARTS: usize = 8;

/// The simulated time of the reads under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyTime {
    /// The policy.
    #[serde(skip)]
    pub policy: PolicyName,
    /// The name of the policy.
    #[serde(rename = "policy")]
    pub policy_name: &'static str,
    /// The largest window.
    pub readahead_max_bytes: u64,
    /// Sum of the durations of the reads of all parts, without pauses, in seconds. If reads of different threads overlap,
    /// each counts in full.
    pub read_s: f64,
    /// The pages that were read ahead and evicted before they were used.
    pub pages_wasted: u64,
    /// The pages that the device read.
    #[serde(skip)]
    pages_read: u64,
    /// Estimated time that the program waits for the reads of each part, in nanoseconds. It includes the reads that
    /// were not simulated.
    #[serde(skip)]
    parts_ns: Vec<f64>,
}

impl PolicyTime {
    fn all_parts_ns(&self) -> f64 {
        self.parts_ns.iter().sum()
    }
}

/// The results of the simulations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadaheadTimes {
    /// The origin of the reads.
    pub origin: ReadOrigin,
    /// Number of simulated reads.
    pub reads: u64,
    /// Number of threads that read.
    pub readers: usize,
    /// Number of pages that the simulated device reads without readahead, because the cache does not contain them.
    pub pages: u64,
    /// Number of parts of the trace that have reads.
    pub parts: usize,
    /// The fraction of the recording from which the reads were taken.
    pub share: f64,
    /// The time during which at least one read was in progress, divided by the sum of the durations of all reads.
    pub waiting_share: f64,
    /// Memory for pages.
    pub memory_bytes: u64,
    /// The current policy first, then the others.
    pub policies: Vec<PolicyTime>,
    /// The time for which the program waits for the device under the current policy, divided by `pages`, in nanoseconds.
    pub page_ns: f64,
}

/// The reads of the trace, and the device on which they are simulated.
#[derive(Debug)]
pub(super) struct Simulations<'a> {
    sample: &'a ReadSample,
    device: DeviceModel,
}

impl<'a> Simulations<'a> {
    pub(super) fn new(sample: &'a ReadSample, device: &DeviceModel) -> Self {
        let mut device = *device;
        if let ServiceModel::Parallel(_) = device.service {
            // All offsets of such a device are equivalent, so a larger size changes no times. It makes space for all
            // files.
            device.size_bytes.value = 1 << 60;
        }
        Self { sample, device }
    }

    /// Simulates all policies with the given memory for pages. Returns `None` if there are no reads. Calls `step` after
    /// each group of simulations.
    pub(super) fn run(
        &self,
        current: &Current,
        memory_bytes: u64,
        recording_ns: u64,
        step: &mut dyn FnMut(),
    ) -> Result<Option<ReadaheadTimes>, Error> {
        let reads = self.sample.reads();
        if reads.kept() == 0 {
            return Ok(None);
        }
        let window = current.readahead_max_bytes;
        let config = ReplayConfig {
            device: self.device,
            memory_bytes: memory_bytes.clamp(MIN_MEMORY, MAX_MEMORY),
            readahead_max_bytes: window,
            seed: 1,
            cpu: CpuModel::default(),
        };
        step();
        let others = PolicyName::ALL.iter().copied();
        let others = others.filter(|policy| *policy != current.readahead);
        let names: Vec<PolicyName> = [current.readahead].into_iter().chain(others).collect();
        let mut policies = self.times(&config, &names)?;
        step();
        let instant = DeviceModel::named("instant").map_or(self.device, |model| DeviceModel {
            size_bytes: self.device.size_bytes,
            ..*model
        });
        let without_device = ReplayConfig {
            device: instant,
            ..config
        };
        let processor = self.times(&without_device, &[current.readahead])?;
        let processor_s: f64 = processor.iter().map(|one| one.read_s).sum();
        step();
        let off = policies.iter().find(|one| one.policy == PolicyName::Off);
        let pages = off.map_or(0, |off| off.pages_read);
        let waiting_share = self.sample.waiting_share();
        let device_s = (policies[0].read_s - processor_s).max(0.0) * waiting_share;
        let best = fastest(&policies).policy;
        if has_window(best) {
            let windows: Vec<u64> = WINDOWS.into_iter().filter(|one| *one != window).collect();
            let of_window = |window: &u64| {
                let config = ReplayConfig {
                    readahead_max_bytes: *window,
                    ..config
                };
                self.times(&config, &[best])
            };
            let times = windows.par_iter().map(of_window);
            let times = times.collect::<Result<Vec<_>, Error>>()?;
            policies.extend(times.into_iter().flatten());
        }
        let recorded_ns = reads.recorded_time().as_secs_f64() * 1e9;
        Ok(Some(ReadaheadTimes {
            origin: self.sample.origin(),
            reads: reads.kept(),
            readers: reads.readers(),
            pages,
            parts: reads.parts(),
            share: ratio(recorded_ns, as_f64(recording_ns.max(1))).min(1.0),
            waiting_share,
            memory_bytes: config.memory_bytes,
            page_ns: ratio(device_s * 1e9, as_f64(pages)),
            policies,
        }))
    }

    /// Simulates all parts under each of `policies`.
    fn times(
        &self,
        config: &ReplayConfig,
        policies: &[PolicyName],
    ) -> Result<Vec<PolicyTime>, Error> {
        let replays = replay(self.sample.reads(), config, policies)?;
        let replays = policies.iter().zip(&replays);
        let times = replays.map(|(policy, parts)| self.time(*policy, config, parts));
        Ok(times.collect())
    }

    fn time(
        &self,
        policy: PolicyName,
        config: &ReplayConfig,
        parts: &[PolicyReplay],
    ) -> PolicyTime {
        let waiting_share = self.sample.waiting_share();
        let scales = self.sample.scales();
        let parts_ns = parts
            .iter()
            .zip(scales)
            .map(|(part, scale)| part.read_s * 1e9 * scale * waiting_share);
        PolicyTime {
            policy,
            policy_name: policy.as_str(),
            readahead_max_bytes: config.readahead_max_bytes,
            read_s: parts.iter().map(|part| part.read_s).sum(),
            pages_wasted: parts
                .iter()
                .map(|part| part.report.pages.pages_wasted)
                .sum(),
            pages_read: parts.iter().map(|part| part.pages_read).sum(),
            parts_ns: parts_ns.collect(),
        }
    }
}

/// Returns the policy whose reads take the least time, and the first one if several do. `policies` must not be empty.
fn fastest(policies: &[PolicyTime]) -> &PolicyTime {
    policies.iter().skip(1).fold(&policies[0], |fastest, one| {
        if one.all_parts_ns() < fastest.all_parts_ns() {
            one
        } else {
            fastest
        }
    })
}

/// Returns whether `readahead_max` affects `policy`.
fn has_window(policy: PolicyName) -> bool {
    !matches!(policy, PolicyName::Off | PolicyName::Adaptive)
}

impl ReadaheadTimes {
    /// Returns the time that `policy` saves over the whole recording, compared with the current policy. `reduced_by` is
    /// the factor of [`Costs`](super::Costs).
    fn saved_ns(&self, policy: &PolicyTime, reduced_by: f64, seed: u64) -> Interval {
        let pairs: Vec<f64> = self.policies[0]
            .parts_ns
            .iter()
            .zip(&policy.parts_ns)
            .map(|(current, other)| (current - other) * reduced_by)
            .collect();
        let sum = |parts: &[f64]| parts.iter().sum::<f64>();
        let range = percentile_range(&pairs, &mut generator(seed, 6), sum);
        let range = range.filter(|_| pairs.len() >= MIN_PARTS);
        Interval {
            value: sum(&pairs),
            low: range.map(|[low, _]| low),
            high: range.map(|[_, high]| high),
        }
    }

    /// Describes the reads: their number and their origin.
    pub(super) fn description(&self) -> String {
        match self.origin {
            ReadOrigin::Recorded => format!(
                "{} of {}",
                counted(self.reads, "recorded read", "recorded reads"),
                counted(self.readers as u64, "thread", "threads")
            ),
            ReadOrigin::PageLookups => {
                let reads = counted(self.reads, "read", "reads");
                format!("{reads} reconstructed from lookups of pages")
            }
        }
    }

    /// Recommends the fastest policy and window, if they save enough.
    pub(super) fn advise(&self, recording_ns: u64, reduced_by: f64, seed: u64) -> Change {
        let (current, fastest) = (&self.policies[0], fastest(&self.policies));
        let saved_ns = self.saved_ns(fastest, reduced_by, seed);
        let is_recommended = is_worth_it(saved_ns, recording_ns);
        let mut options = Vec::new();
        if is_recommended && fastest.policy != current.policy {
            options.push(format!("readahead={}", fastest.policy));
        }
        if is_recommended && fastest.readahead_max_bytes != current.readahead_max_bytes {
            options.push(format!(
                "readahead_max={}",
                size(fastest.readahead_max_bytes)
            ));
        }
        let reads = self.description();
        let names =
            |one: &PolicyTime| format!("{} up to {}", one.policy, size(one.readahead_max_bytes));
        let reason = if std::ptr::eq(fastest, current) {
            format!("{} is the fastest policy on {reads}", names(current))
        } else {
            format!(
                "on {reads}, {} takes {:.3} s, and {} takes {:.3} s",
                names(fastest),
                fastest.read_s,
                names(current),
                current.read_s
            )
        };
        Change {
            part: "readahead",
            options,
            saved_ns: Some(saved_ns),
            reason,
        }
    }
}

/// Formats a size as in options: `128K`, `1536M`.
pub(super) fn size(bytes: u64) -> String {
    for (unit, suffix) in [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{suffix}", bytes / unit);
        }
    }
    bytes.to_string()
}
