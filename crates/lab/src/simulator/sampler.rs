//! Samples each second of a run, up to one day.

use std::time::Duration;

use larder_instruments::simulated::{DeviceCounts, VirtualTime};

use crate::run_report::{Sample, as_f64, quotient, ratio};

const SECOND: Duration = Duration::from_secs(1);

/// Maximum number of samples. The last one covers the rest of the run.
const MAX_SAMPLES: usize = 86_400;

/// Collects the samples of a run.
#[derive(Debug)]
pub(super) struct Sampler {
    began: VirtualTime,
    /// Start of the current second.
    from: VirtualTime,
    to: VirtualTime,
    /// The device's counts at the start of the current second.
    device: DeviceCounts,
    /// Bytes that readers and writers transferred in the current second so far.
    bytes: u64,
    samples: Vec<Sample>,
}

impl Sampler {
    pub(super) fn new(began: VirtualTime, device: DeviceCounts) -> Self {
        Self {
            began,
            from: began,
            to: began + SECOND,
            device,
            bytes: 0,
            samples: Vec::new(),
        }
    }

    /// Counts bytes that readers or writers transferred.
    pub(super) fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Returns whether the current second has ended by `now`. Returns false if its end would exceed the
    /// maximum virtual time.
    pub(super) fn is_due(&self, now: VirtualTime) -> bool {
        now >= self.to && self.to < VirtualTime(u64::MAX)
    }

    /// Ends the current second, and begins the next one.
    pub(super) fn end_second(&mut self, device: DeviceCounts, streams: u32) {
        self.sample(self.to, device, streams);
        self.from = self.to;
        self.to = if self.samples.len() < MAX_SAMPLES {
            self.to + SECOND
        } else {
            VirtualTime(u64::MAX)
        };
    }

    /// Ends the run with a sample of the remainder of its last second.
    pub(super) fn finish(mut self, now: VirtualTime, device: DeviceCounts) -> Vec<Sample> {
        if now > self.from {
            self.sample(now, device, 0);
        }
        self.samples
    }

    fn sample(&mut self, to: VirtualTime, device: DeviceCounts, streams: u32) {
        let reads = device.reads - self.device.reads;
        let read_bytes = device.read_bytes - self.device.read_bytes;
        self.samples.push(Sample {
            at_s: to.since(self.began).as_secs_f64(),
            throughput_bytes_s: ratio(as_f64(self.bytes), to.since(self.from).as_secs_f64()),
            mean_read_bytes: quotient(read_bytes, reads),
            streams,
        });
        self.device = device;
        self.bytes = 0;
    }
}
