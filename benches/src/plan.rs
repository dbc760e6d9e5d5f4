//! The sizes of a run.

use serde::{Deserialize, Serialize};

/// The sizes of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The number of small files in the tree.
    pub files: u32,
    /// The size of the big file, a multiple of a page.
    pub big_file_bytes: u64,
    /// The number of runs of each measure. Results are medians over them.
    pub runs: usize,
    /// The number of threads that read at random.
    pub random_threads: u32,
    /// The number of pages that each of these threads reads, no page twice.
    pub random_reads: u32,
    /// The number of pages of the big file over which the cached reads in process are spread.
    pub cached_pages: u32,
    /// The number of calls in one run of each measure of cached reads, lookups and decisions.
    pub in_process_calls: u32,
    /// The size of the file that is written sequentially, and the total size of the files that grow
    /// concurrently.
    pub write_bytes: u64,
    /// The number of random writes of 4 KiB.
    pub overwrites: u32,
    /// The number of appends of 100 bytes.
    #[serde(default)]
    pub appends: u32,
    /// The number of times that an extended attribute is set.
    #[serde(default)]
    pub attribute_sets: u32,
    /// The number of directories in which something is changed before stat(2) is called in them.
    #[serde(default)]
    pub stat_directories: u32,
    /// The number of small files that are synced one by one, by all processes together.
    pub fsync_files: u32,
    /// The number of rows in each of the database's four tables.
    pub table_rows: u32,
    /// The duration of the database's load in seconds.
    pub database_seconds: u32,
    /// The number of random pages that are read cold without a mount.
    #[serde(default)]
    pub cold_reads: u32,
    /// The size of the journal in the measure of a checkpoint.
    #[serde(default)]
    pub checkpoint_journal_mib: u32,
    /// The number of files on the image in the measure of a checkpoint.
    #[serde(default)]
    pub checkpoint_files: u32,
}

impl Plan {
    /// Returns the plan of `make bench`: 10,000 files and one of 512 MiB, three runs.
    #[must_use]
    pub fn full() -> Self {
        Self {
            files: 10_000,
            big_file_bytes: 512 << 20,
            runs: 3,
            random_threads: 4,
            random_reads: 2_500,
            cached_pages: 4_096,
            in_process_calls: 400_000,
            write_bytes: 256 << 20,
            overwrites: 20_000,
            appends: 100_000,
            attribute_sets: 10_000,
            stat_directories: 4_000,
            fsync_files: 500,
            table_rows: 20_000,
            database_seconds: 15,
            cold_reads: 32_768,
            checkpoint_journal_mib: 16,
            checkpoint_files: 128 << 10,
        }
    }

    /// Returns a plan of two runs of the same workloads with smaller sizes, to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            files: 2_000,
            big_file_bytes: 128 << 20,
            runs: 2,
            random_reads: 1_000,
            write_bytes: 64 << 20,
            overwrites: 5_000,
            appends: 20_000,
            attribute_sets: 2_000,
            stat_directories: 1_000,
            fsync_files: 320,
            table_rows: 5_000,
            database_seconds: 5,
            cold_reads: 8_192,
            ..Self::full()
        }
    }

    /// Returns a plan of one run that takes about a second, for the test.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            files: 120,
            big_file_bytes: 4 << 20,
            runs: 1,
            random_threads: 4,
            random_reads: 50,
            cached_pages: 64,
            in_process_calls: 500,
            write_bytes: 2 << 20,
            overwrites: 50,
            appends: 500,
            attribute_sets: 50,
            stat_directories: 20,
            fsync_files: 32,
            table_rows: 10,
            database_seconds: 1,
            cold_reads: 200,
            checkpoint_journal_mib: 4,
            checkpoint_files: 32 << 10,
        }
    }
}
