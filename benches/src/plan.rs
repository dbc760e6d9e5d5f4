//! How much a run does.

use serde::Serialize;

/// The size of everything in a run.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Small files in the tree.
    pub files: u32,
    /// Size of the big file, a multiple of a page.
    pub big_file_bytes: u64,
    /// Runs of each measure; the median counts.
    pub runs: usize,
    /// Threads that read at random.
    pub random_threads: u32,
    /// Pages that each of them reads, no page twice.
    pub random_reads: u32,
    /// Pages of the big file that the cached reads in process go over.
    pub cached_pages: u32,
    /// Cached reads, lookups and decisions in one run.
    pub in_process_calls: u32,
    /// Size of the file that is written from start to end, and of those that grow at once.
    pub write_bytes: u64,
    /// Writes of 4 KiB at random.
    pub overwrites: u32,
    /// Small files that are synced one by one, over all processes.
    pub fsync_files: u32,
    /// Rows in each of the database's four tables.
    pub table_rows: u32,
    /// Seconds of the database's load.
    pub database_seconds: u32,
}

impl Plan {
    /// What `make bench` does: 10,000 files and one of 512 MiB, five runs.
    #[must_use]
    pub fn full() -> Self {
        Self {
            files: 10_000,
            big_file_bytes: 512 << 20,
            runs: 5,
            random_threads: 4,
            random_reads: 2_500,
            cached_pages: 4_096,
            in_process_calls: 400_000,
            write_bytes: 512 << 20,
            overwrites: 20_000,
            fsync_files: 800,
            table_rows: 20_000,
            database_seconds: 15,
        }
    }

    /// The same workloads, smaller and twice: to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            files: 2_000,
            big_file_bytes: 128 << 20,
            runs: 2,
            random_reads: 1_000,
            write_bytes: 128 << 20,
            overwrites: 5_000,
            fsync_files: 320,
            table_rows: 5_000,
            database_seconds: 5,
            ..Self::full()
        }
    }

    /// A second's worth: what the test runs.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            files: 120,
            big_file_bytes: 2 << 20,
            runs: 1,
            random_threads: 4,
            random_reads: 50,
            cached_pages: 64,
            in_process_calls: 500,
            write_bytes: 2 << 20,
            overwrites: 50,
            fsync_files: 32,
            table_rows: 10,
            database_seconds: 1,
        }
    }
}
