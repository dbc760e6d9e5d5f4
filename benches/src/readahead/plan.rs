//! How much a run of the readahead benches does.

use std::time::Duration;

use serde::Serialize;

use crate::readahead::case::Disk;
use crate::readahead::cgroup::Throttle;

/// What each read asks for, but those of paced streams.
pub const REQUEST_BYTES: u64 = 64 << 10;

/// The most that is read ahead, by the kernel and by each policy.
pub const READ_AHEAD_BYTES: u64 = 1 << 20;

/// The disk of the published measurements, as far as a throttle can be one: sequential reads came
/// to 62 MB/s there, and random ones of 64 KiB to 13.9.
pub const SLOW_DISK: Throttle = Throttle {
    bytes_per_second: 62_000_000,
    reads_per_second: 210,
};

/// The size of everything in a run.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Rounds over the cases on the fast disk; the median counts.
    pub rounds: usize,
    /// Rounds over those on the slow disk.
    pub slow_rounds: usize,
    /// The large file.
    pub large_file_bytes: u64,
    /// Files with a stream each.
    pub streams: u32,
    /// Each of these.
    pub stream_file_bytes: u64,
    /// What differs with the disk.
    pub fast: Sizes,
    /// The same for the slow one.
    pub slow: Sizes,
    /// The streams that are started one after the other.
    pub paced: Paced,
    /// How long streams with no pace run.
    pub unpaced_seconds: u64,
    /// What streams share, with their server.
    pub stream_memory_bytes: u64,
}

/// How much is read of the large file.
#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    /// Memory for the readers of fio and sysbench, with their server.
    pub memory_bytes: u64,
    /// The part of the large file that is read from one end to the other.
    pub sequential_bytes: u64,
    /// How much is read backwards.
    pub reverse_bytes: u64,
    /// How much is read at random.
    pub random_bytes: u64,
    /// The part of the large file that interleaved readers share.
    pub interleaved_bytes: u64,
    /// Threads of sysbench, one run each.
    pub sysbench_threads: Vec<u32>,
    /// What each run of sysbench reads, in requests.
    pub sysbench_events: u64,
}

/// Streams as in the published measurement of thrashing.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Paced {
    /// Streams started each second.
    pub starts_per_second: u32,
    /// How fast each stream reads, at most.
    pub bytes_per_second: u64,
    /// How much a stream reads at once.
    pub request_bytes: u64,
    /// How long all of them run together, at the end.
    pub together_seconds: u64,
}

impl Plan {
    /// What `make bench-readahead` does.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            rounds: 3,
            slow_rounds: 1,
            large_file_bytes: 1 << 30,
            streams: 200,
            stream_file_bytes: 8 << 20,
            fast: Sizes {
                memory_bytes: 512 << 20,
                sequential_bytes: 1 << 30,
                reverse_bytes: 512 << 20,
                random_bytes: 256 << 20,
                interleaved_bytes: 1 << 30,
                sysbench_threads: vec![1, 4, 16, 64],
                sysbench_events: 4_000,
            },
            slow: Sizes {
                memory_bytes: 64 << 20,
                sequential_bytes: 128 << 20,
                reverse_bytes: 32 << 20,
                random_bytes: 32 << 20,
                interleaved_bytes: 128 << 20,
                sysbench_threads: vec![1, 64],
                sysbench_events: 1_000,
            },
            paced: Paced {
                starts_per_second: 10,
                bytes_per_second: 100_000,
                request_bytes: 16 << 10,
                together_seconds: 10,
            },
            unpaced_seconds: 5,
            stream_memory_bytes: 128 << 20,
        }
    }

    /// One round, to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            rounds: 1,
            ..Self::standard()
        }
    }

    /// With the streams started as published, one a second, and more rounds: for an hour.
    #[must_use]
    pub fn full() -> Self {
        let standard = Self::standard();
        Self {
            rounds: 5,
            slow_rounds: 3,
            stream_file_bytes: 24 << 20,
            paced: Paced {
                starts_per_second: 1,
                together_seconds: 20,
                ..standard.paced
            },
            unpaced_seconds: 20,
            ..standard
        }
    }

    /// Some seconds' worth: what the test runs.
    #[must_use]
    pub fn tiny() -> Self {
        let sizes = Sizes {
            memory_bytes: 64 << 20,
            sequential_bytes: 8 << 20,
            reverse_bytes: 2 << 20,
            random_bytes: 1 << 20,
            interleaved_bytes: 8 << 20,
            sysbench_threads: vec![2],
            sysbench_events: 20,
        };
        Self {
            rounds: 1,
            slow_rounds: 1,
            large_file_bytes: 8 << 20,
            streams: 4,
            stream_file_bytes: 1 << 20,
            fast: sizes.clone(),
            slow: sizes,
            paced: Paced {
                starts_per_second: 10,
                bytes_per_second: 1 << 20,
                request_bytes: 16 << 10,
                together_seconds: 1,
            },
            unpaced_seconds: 1,
            stream_memory_bytes: 64 << 20,
        }
    }

    /// What is read on `disk`.
    #[must_use]
    pub const fn sizes(&self, disk: Disk) -> &Sizes {
        match disk {
            Disk::Fast => &self.fast,
            Disk::Slow => &self.slow,
        }
    }

    /// Rounds over the cases on `disk`.
    #[must_use]
    pub const fn rounds_on(&self, disk: Disk) -> usize {
        match disk {
            Disk::Fast => self.rounds,
            Disk::Slow => self.slow_rounds,
        }
    }

    /// How long paced streams run, from the first one's start.
    #[must_use]
    pub fn paced_duration(&self) -> Duration {
        let starts = self.streams.div_ceil(self.paced.starts_per_second.max(1));
        Duration::from_secs(u64::from(starts) + self.paced.together_seconds)
    }
}
