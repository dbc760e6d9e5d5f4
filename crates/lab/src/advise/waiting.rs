//! The time in which a program waits for reads, if its threads read at the same time.

use crate::run_report::{as_f64, ratio};
use larder_trace::FileRead;

/// The times of reads: their sum, and the length of their union.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    sum_ns: u64,
    union_ns: u64,
    /// The disjoint intervals of the current part, in ascending order.
    intervals: Vec<(u64, u64)>,
}

impl Waiting {
    /// Adds a read. The reads of a part must be added in the order of their ends.
    pub(super) fn add(&mut self, read: &FileRead) {
        let (mut start, mut end) = (read.start_ns(), read.time_ns);
        if start == end {
            return;
        }
        self.sum_ns += end - start;
        while let Some(last) = self.intervals.pop_if(|last| last.1 >= start) {
            start = start.min(last.0);
            end = end.max(last.1);
        }
        self.intervals.push((start, end));
    }

    /// Ends the current part.
    pub(super) fn end_part(&mut self) {
        let intervals = self.intervals.drain(..);
        self.union_ns += intervals.map(|(start, end)| end - start).sum::<u64>();
    }

    /// Returns the union as a share of the sum: 1 if no reads overlap, or if their durations are unknown.
    pub(super) fn share(&self) -> f64 {
        if self.sum_ns == 0 {
            return 1.0;
        }
        ratio(as_f64(self.union_ns), as_f64(self.sum_ns)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(reads: &[(u64, u64)]) -> f64 {
        let mut waiting = Waiting::default();
        for &(start, end) in reads {
            waiting.add(&FileRead {
                time_ns: end,
                device: 0,
                inode: 1,
                offset_bytes: 0,
                len_bytes: 1,
                file_bytes: 0,
                stream: 0,
                thread: 0,
                duration_ns: end - start,
                is_fault: false,
            });
        }
        waiting.end_part();
        waiting.share()
    }

    #[test]
    fn overlapping_reads_count_once() {
        for (reads, expected) in [
            (&[][..], 1.0),
            (&[(5, 5)], 1.0),
            (&[(0, 10), (10, 20), (30, 40)], 1.0),
            (&[(0, 10), (5, 20)], 20.0 / 25.0),
            (&[(0, 10), (20, 30), (0, 40)], 40.0 / 60.0),
            (&[(0, 10), (0, 10), (0, 10), (0, 10)], 0.25),
        ] {
            let found = share(reads);
            assert!((found - expected).abs() < 1e-9, "{reads:?}: {found}");
        }
    }
}
