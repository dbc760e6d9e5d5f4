//! xattr-bench: processes that set attributes with values from a pool.
//!
//! # Model
//! The stress test of J. Kara, "ext\[24\]: `MBCache` rewrite", 2016: each of P processes sets the
//! attribute of F files of its own to values that it draws from a pool of V, N times in all. The
//! letter says neither the attribute's name nor the size of a value; ours are
//! [`ATTRIBUTE`] and [`VALUE_BYTES`], so that a value goes into a block of its own whatever the
//! inode's size.

use larder::{AttributeStats, MbCacheVariant};
use serde::Serialize;
use std::path::PathBuf;

/// The attribute that is set.
pub const ATTRIBUTE: &str = "user.xattr-bench";

/// Bytes of a value: more than an inode of 256 bytes has room for.
pub const VALUE_BYTES: usize = 256;

/// Processes, files of each, and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// Processes, or threads (P).
    pub processes: u32,
    /// Files that each of them has (F).
    pub files: u32,
    /// Values in the pool (V).
    pub values: u32,
}

impl Case {
    /// The processes of the letter.
    pub const PROCESSES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
    /// The files of the letter.
    pub const FILES: [u32; 3] = [10, 100, 1000];
    /// The values of the letter.
    pub const VALUES: [u32; 5] = [10, 100, 1000, 10_000, 100_000];
}

/// How a case is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BenchConfig {
    /// Sets by each process. The letter: 50,000.
    pub operations: u32,
    /// Runs of each case. The letter: 5.
    pub runs: u32,
    /// What chance is drawn from.
    pub seed: u64,
}

/// What is driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The cache alone.
    Engine,
    /// A volume in this process, on a memory device with an ext4 without a journal.
    Volume,
    /// A directory of a mounted file system, by setxattr(2) in processes.
    Directory(PathBuf),
}

/// A case, measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The case.
    pub case: Case,
    /// The variant; `None` if the file system has its own.
    pub variant: Option<MbCacheVariant>,
    /// Seconds that each run took, from the first set to the last.
    pub seconds: Vec<f64>,
    /// What the cache did in the last run, if it is ours.
    pub stats: Option<AttributeStats>,
}
