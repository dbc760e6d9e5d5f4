//! Streams of 100 KB/s in 128 MB of memory. One stream starts each second, up to 200.

use std::time::Duration;

use larder_readahead::PolicyName;

use super::machine::{Size, SmallMachine};
use super::results::{ThrashingCourse, ThrashingSecond};
use crate::simulator::Error;
use crate::workload::{Jobs, Operation, ReaderJob};

pub(super) const SETUP: &str = "\
The document: \"We boot kernel with `mem=128m single`, and start a 100KB/s stream on every second, \
until reaching 200 streams.\" Here each stream reads its own file, 4 KiB at a time and 25 times per \
second. A stream that is late continues at once, and does not catch up. The files are stored one \
after the other. Each second is a sample; the run ends with the second that has 200 streams. The \
smallest mean read size is taken from the tenth second on, so that the small initial windows of a \
few streams do not count as thrashing.

The document leaves two properties open: how much of the 128 MB is left for pages, and how much a stream reads at a \
time. The memory is fixed by a measurement that is independent of the figures: 128 MB minus an estimate of 16 MB for \
the kernel, minus 200 times 192,450 bytes, the memory of a process that reads a stream (without the page cache; \
`scripts/process-memory`, 200 processes in a control group on Linux 6.18, x86-64, 2026-11-24). 75.3 MiB are left. The \
findings are judged with this memory and with reads of one page. A finding is undecided if its verdict is the opposite \
with another size of reads; the grid below shows the gains with other values.";

const STREAMS: u32 = 200;
const STREAM_BYTES_S: u64 = 100 << 10;
pub(super) const REQUEST_BYTES: u64 = 4 << 10;
/// The second from which the average size of a read counts.
const SETTLED_S: u32 = 10;

/// Runs the whole course with a growing number of streams under `policy`.
pub(super) fn measure(policy: PolicyName, size: Size) -> Result<ThrashingCourse, Error> {
    measure_on(
        &SmallMachine::as_modelled(size.scheduler),
        REQUEST_BYTES,
        policy,
        size,
    )
}

/// Runs the course on the given machine, with streams that read `request_bytes` at a time.
pub(super) fn measure_on(
    machine: &SmallMachine,
    request_bytes: u64,
    policy: PolicyName,
    size: Size,
) -> Result<ThrashingCourse, Error> {
    let mut machine = machine.boot(policy, size)?;
    // Long enough for the longest stream.
    let file_bytes = STREAM_BYTES_S * u64::from(STREAMS + 1);
    let open_files = machine.add_files(&vec![file_bytes; STREAMS as usize])?;
    let report = machine.run(Jobs {
        open_files,
        readers: (0..STREAMS)
            .map(|number| stream(number, request_bytes))
            .collect(),
        stop_after: Some(Duration::from_secs(u64::from(STREAMS))),
    });
    let samples = report.samples.iter().take(STREAMS as usize);
    let seconds = samples.zip(1..).map(|(sample, at_s)| ThrashingSecond {
        at_s,
        streams: sample.streams,
        throughput_mb_s: sample.throughput_bytes_s / f64::from(1 << 20),
        mean_read_kb: (sample.mean_read_bytes > 0.0).then_some(sample.mean_read_bytes / 1024.0),
    });
    Ok(ThrashingCourse {
        policy: policy.as_str(),
        seconds: seconds.collect(),
        pages_wasted: report.pages.pages_wasted,
        pages_ahead: report.pages.pages_ahead,
    })
}

fn stream(number: u32, request_bytes: u64) -> ReaderJob {
    let reads =
        (0..).map(move |request| Operation::read(number, request * request_bytes, request_bytes));
    ReaderJob {
        start: Duration::from_secs(u64::from(number)),
        interval: Duration::from_millis(request_bytes * 1000 / STREAM_BYTES_S),
        operations: Box::new(reads),
    }
}

impl ThrashingCourse {
    /// Returns the highest total throughput of any second, in MB/s.
    pub fn max_throughput_mb_s(&self) -> f64 {
        let seconds = self.seconds.iter();
        seconds
            .map(|second| second.throughput_mb_s)
            .fold(0.0, f64::max)
    }

    /// Returns the mean throughput in MB/s, and the mean of the mean sizes of a device read in KB,
    /// over the seconds with more than `streams`.
    pub fn means_above(&self, streams: u32) -> [f64; 2] {
        let seconds = || self.seconds.iter().filter(|s| s.streams > streams);
        [
            mean(seconds().map(|second| second.throughput_mb_s)),
            mean(seconds().filter_map(|second| second.mean_read_kb)),
        ]
    }

    /// Returns the mean total throughput of the last `seconds`, in MB/s.
    pub fn final_mb_s(&self, seconds: usize) -> f64 {
        let last = self.seconds.iter().rev().take(seconds);
        mean(last.map(|second| second.throughput_mb_s))
    }

    /// Returns the smallest mean size of the device reads in a second, in KB; infinite if there
    /// were no reads.
    pub fn min_mean_read_kb(&self) -> f64 {
        self.seconds
            .iter()
            .filter(|second| second.at_s >= SETTLED_S)
            .filter_map(|second| second.mean_read_kb)
            .fold(f64::INFINITY, f64::min)
    }
}

/// Returns the mean, which is not a number if there are no values.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn course_is_summarized_by_its_extremes() {
        let second = |at_s, throughput_mb_s, mean_read_kb| ThrashingSecond {
            at_s,
            streams: at_s,
            throughput_mb_s,
            mean_read_kb,
        };
        let course = ThrashingCourse {
            policy: "legacy",
            // The first one is too early to count, and a second without reads has no mean.
            seconds: vec![
                second(1, 0.1, Some(4.0)),
                second(10, 5.0, Some(20.0)),
                second(11, 3.0, Some(16.0)),
                second(12, 2.0, None),
            ],
            pages_wasted: 0,
            pages_ahead: 0,
        };
        assert!((course.max_throughput_mb_s() - 5.0).abs() < 1e-9);
        assert!((course.min_mean_read_kb() - 16.0).abs() < 1e-9);
        let [throughput, read] = course.means_above(10);
        assert!((throughput - 2.5).abs() < 1e-9 && (read - 16.0).abs() < 1e-9);
        assert!((course.final_mb_s(2) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn stream_requests_its_rate() {
        let stream = stream(7, REQUEST_BYTES);
        assert_eq!(stream.start, Duration::from_secs(7));
        assert_eq!(stream.interval, Duration::from_millis(40));
    }
}
