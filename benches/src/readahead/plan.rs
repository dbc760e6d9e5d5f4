//! The sizes of a run of the readahead benches.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::readahead::cgroup::Throttle;

/// The size of each read, except for those of paced streams.
pub const REQUEST_BYTES: u64 = 64 << 10;

/// The maximum size of a readahead window, for the kernel and for each policy.
pub const READ_AHEAD_BYTES: u64 = 1 << 20;

/// The disk of the published measurements, as closely as a throttle can emulate it: 62 MB/s for
/// sequential reads, and 13.9 MB/s for random reads of 64 KiB.
pub const SLOW_DISK: Throttle = Throttle {
    bytes_per_second: 62_000_000,
    reads_per_second: 210,
};

/// The speed of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disk {
    /// The full speed of the machine's storage.
    Fast,
    /// Throttled to [`SLOW_DISK`].
    Slow,
}

/// The sizes of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The number of rounds of the cases on the fast disk. Results are medians over the rounds.
    pub rounds: usize,
    /// The number of rounds of the cases on the slow disk.
    pub slow_rounds: usize,
    /// The size of the big file.
    pub large_file_bytes: u64,
    /// The number of streams, each of which reads its own file.
    pub streams: u32,
    /// The size of each of these files.
    pub stream_file_bytes: u64,
    /// The sizes for the fast disk.
    pub fast: Sizes,
    /// The sizes for the slow disk.
    pub slow: Sizes,
    /// The streams with a limited rate and staggered starts.
    pub paced: Paced,
    /// The duration of the streams without a rate limit.
    pub unpaced_seconds: u64,
    /// The memory of all streams and their server.
    pub stream_memory_bytes: u64,
    /// The database.
    #[serde(default)]
    pub oltp: Oltp,
}

/// The sizes of the OLTP test. In old results, which have none, they are 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Oltp {
    /// The number of rows of the table, each of which takes about 240 bytes.
    pub rows: u64,
    /// The number of transactions in each run.
    pub transactions: u64,
    /// The numbers of threads of sysbench, with one run for each.
    pub threads: Vec<u32>,
    /// The memory of the database server, and of the server of the mount.
    pub memory_bytes: u64,
}

impl Oltp {
    /// Returns a quarter of the published sizes: 10 million rows, 10,000 transactions and 2 GB. As published, the cache
    /// of the mount, which has three quarters of the memory, holds 85% of the table.
    fn quarter(threads: Vec<u32>) -> Self {
        Self {
            rows: 2_500_000,
            transactions: 2_500,
            threads,
            memory_bytes: 650 << 20,
        }
    }
}

/// The sizes that depend on the disk: memory, and the amounts that are read from the big file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sizes {
    /// The memory of the readers of fio and sysbench, and of their server.
    pub memory_bytes: u64,
    /// The part of the big file that is read sequentially.
    pub sequential_bytes: u64,
    /// The amount that is read backwards.
    pub reverse_bytes: u64,
    /// The amount that is read at random.
    pub random_bytes: u64,
    /// The part of the big file that interleaved readers share.
    pub interleaved_bytes: u64,
    /// The numbers of threads of sysbench, with one run for each.
    pub sysbench_threads: Vec<u32>,
    /// The number of requests in each run of sysbench.
    pub sysbench_events: u64,
}

/// The parameters of streams with a limited rate, as in the published measurement of thrashing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Paced {
    /// The number of streams started per second.
    pub starts_per_second: u32,
    /// The maximum rate of each stream.
    pub bytes_per_second: u64,
    /// The size of each read.
    pub request_bytes: u64,
    /// The time at the end in which all streams run concurrently.
    pub together_seconds: u64,
}

impl Plan {
    /// Returns the plan of `make bench-readahead`.
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
            oltp: Oltp::quarter(vec![8]),
        }
    }

    /// Returns a plan of one round, to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            rounds: 1,
            ..Self::standard()
        }
    }

    /// Returns a plan with one start of a stream per second, as published, and more rounds. Its run
    /// takes about two and a half hours.
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
            oltp: Oltp::quarter(vec![1, 8, 64]),
            ..standard
        }
    }

    /// Returns a plan whose run takes a few seconds, for the test.
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
            oltp: Oltp {
                rows: 2_000,
                transactions: 20,
                threads: vec![2],
                memory_bytes: 512 << 20,
            },
        }
    }

    /// Returns the sizes for `disk`.
    #[must_use]
    pub const fn sizes(&self, disk: Disk) -> &Sizes {
        match disk {
            Disk::Fast => &self.fast,
            Disk::Slow => &self.slow,
        }
    }

    /// Returns the number of rounds of the cases on `disk`.
    #[must_use]
    pub const fn rounds_on(&self, disk: Disk) -> usize {
        match disk {
            Disk::Fast => self.rounds,
            Disk::Slow => self.slow_rounds,
        }
    }

    /// Returns the duration of the paced streams, from the start of the first one.
    #[must_use]
    pub fn paced_duration(&self) -> Duration {
        let starts = self.streams.div_ceil(self.paced.starts_per_second.max(1));
        Duration::from_secs(u64::from(starts) + self.paced.together_seconds)
    }
}
