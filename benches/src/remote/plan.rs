//! The sizes of a run.

use serde::{Deserialize, Serialize};

/// The sizes of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Whether the run proves nothing: it is too short, or too small.
    pub is_trial: bool,
    /// The size of the big file, a multiple of a page.
    pub big_file_bytes: u64,
    /// The number of directories of small files.
    pub folders: u32,
    /// The number of small files in each of them.
    pub files_each: u32,
    /// The number of rounds of Larder's own measures. Results are medians over them.
    pub rounds: usize,
    /// The number of random reads by one thread.
    pub random_reads: u32,
    /// The number of random reads by each of 64 threads.
    pub random_reads_each: u32,
    /// The number of open files in the measure of memory.
    pub open_files: u32,
    /// The number of simulated nodes that start a program.
    pub nodes: u32,
    /// The number of processes that start at once.
    pub processes: u32,
    /// Whether other programs are measured.
    pub has_peers: bool,
    /// The time in seconds after which a measurement of another program is given up.
    pub peer_seconds: u64,
}

impl Plan {
    /// Returns the plan of `make bench-remote`.
    #[must_use]
    pub fn full() -> Self {
        Self {
            is_trial: false,
            big_file_bytes: 1 << 30,
            folders: 100,
            files_each: 100,
            rounds: 3,
            random_reads: 200,
            random_reads_each: 40,
            open_files: 1_000,
            nodes: 1_000,
            processes: 50,
            has_peers: true,
            peer_seconds: 60,
        }
    }

    /// Returns a plan with a small file and one round, to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            is_trial: true,
            big_file_bytes: 256 << 20,
            rounds: 1,
            random_reads: 100,
            random_reads_each: 10,
            nodes: 50,
            processes: 10,
            peer_seconds: 30,
            ..Self::full()
        }
    }

    /// Returns the plan of a run that takes seconds, for the test.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            big_file_bytes: 4 << 20,
            folders: 3,
            files_each: 4,
            random_reads: 5,
            random_reads_each: 1,
            open_files: 10,
            nodes: 3,
            processes: 2,
            has_peers: false,
            ..Self::quick()
        }
    }

    /// Returns the number of small files.
    #[must_use]
    pub const fn files(&self) -> u32 {
        self.folders * self.files_each
    }
}
