//! The time of a miss in each cache.
//!
//! # Model
//! A miss of a page takes the time that the device needs for the simulated reads, divided by the number of pages. So
//! the effect of readahead is included. A miss of a buffer takes a random read. A miss of a name or an inode takes
//! processor time, and looks up the block that contains it in the buffer cache.
//!
//! The trace contains these lookups of blocks, so their misses are among those of the buffers. With another capacity,
//! there are more or fewer misses of names and inodes than in the recording. Each additional miss adds a lookup of a
//! buffer, and each avoided miss removes one. These lookups miss as often as all other lookups of buffers.
//!
//! The recorded program cannot have waited for longer than the recording took. If the misses would take longer
//! at these costs, the device of the recording was faster, or several threads waited at the same time. All costs
//! are then reduced by the same factor.

use super::pass::Observation;
use super::population::Capacity;
use crate::run_report::{as_f64, ratio};
use larder_cache::tape::CacheKind;
use serde::Serialize;

/// Assumed processor time to search a directory block for a name, and to decode an inode, in nanoseconds.
const DENTRY_NS: f64 = 2000.0;
const INODE_NS: f64 = 1000.0;

/// The time of a miss in each cache, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// A page.
    pub page_ns: f64,
    /// A block of metadata: a random read.
    pub buffer_ns: f64,
    /// A name: only the processor time.
    pub dentry_ns: f64,
    /// An inode: only the processor time.
    pub inode_ns: f64,
    /// The factor by which all costs were reduced, so that the recorded misses fit into the recording; 1 if the costs
    /// were not reduced.
    pub reduced_by: f64,
}

impl Costs {
    /// Returns the costs on a device with the given time of a random read. `page_ns` is the simulated time of a
    /// page; `None` if there were no reads to simulate.
    pub(super) fn new(latency_ns: f64, page_ns: Option<f64>) -> Self {
        Self {
            page_ns: page_ns.unwrap_or(latency_ns),
            buffer_ns: latency_ns,
            dentry_ns: DENTRY_NS,
            inode_ns: INODE_NS,
            reduced_by: 1.0,
        }
    }

    /// Reduces the costs so that the misses with `capacity` take at most the recording. A recording without
    /// times does not limit them.
    pub(super) fn fitted(self, observation: &Observation, capacity: Capacity) -> Self {
        let misses = CacheKind::ALL.map(|cache| observation.misses(cache, capacity));
        let lookups = as_f64(observation.counts[CacheKind::Buffer as usize].lookups);
        let all_ns = self.time_ns(misses, misses, lookups);
        let recording = as_f64(observation.recording_ns);
        if all_ns <= recording || observation.recording_ns == 0 {
            return self;
        }
        let factor = ratio(recording, all_ns);
        Self {
            page_ns: self.page_ns * factor,
            buffer_ns: self.buffer_ns * factor,
            dentry_ns: self.dentry_ns * factor,
            inode_ns: self.inode_ns * factor,
            reduced_by: factor,
        }
    }

    /// Returns the time of the given misses, indexed by cache. `recorded` are the misses in the recording, which caused
    /// lookups of buffers. `buffer_lookups` is the number of all recorded lookups of buffers.
    pub(super) fn time_ns(&self, misses: [f64; 4], recorded: [f64; 4], buffer_lookups: f64) -> f64 {
        let [pages, buffers, dentries, inodes] = misses;
        let [_, _, recorded_dentries, recorded_inodes] = recorded;
        let buffer_share = ratio(buffers, buffer_lookups).clamp(0.0, 1.0);
        let more_lookups = dentries - recorded_dentries + inodes - recorded_inodes;
        let reads = (buffers + buffer_share * more_lookups).max(0.0);
        pages * self.page_ns
            + reads * self.buffer_ns
            + dentries * self.dentry_ns
            + inodes * self.inode_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_the_sum_of_the_misses() {
        let costs = Costs::new(100_000.0, Some(10_000.0));
        let time = |misses, lookups| costs.time_ns(misses, misses, lookups);
        assert!((time([3.0, 0.0, 0.0, 0.0], 0.0) - 30_000.0).abs() < 1e-6);
        assert!((time([0.0, 2.0, 0.0, 0.0], 4.0) - 200_000.0).abs() < 1e-6);
        // The reads for the name and the inode are among the two misses of buffers.
        let names = time([0.0, 2.0, 1.0, 1.0], 4.0) - 200_000.0;
        assert!((names - DENTRY_NS - INODE_NS).abs() < 1e-6);
    }

    /// Half of the lookups of buffers miss.
    #[test]
    fn misses_of_names_and_inodes_change_the_reads_of_blocks() {
        let costs = Costs::new(100_000.0, None);
        let time = |recorded| costs.time_ns([0.0, 2.0, 1.0, 1.0], recorded, 4.0);
        let processor_ns = DENTRY_NS + INODE_NS;
        assert!((time([0.0, 2.0, 2.0, 2.0]) - 100_000.0 - processor_ns).abs() < 1e-6);
        assert!((time([0.0, 2.0, 0.0, 0.0]) - 300_000.0 - processor_ns).abs() < 1e-6);
        assert!((time([0.0, 2.0, 9.0, 9.0]) - processor_ns).abs() < 1e-6);
    }
}
