//! xattr-bench: a benchmark in which processes set extended attributes to values from a pool.
//!
//! # Model
//! This is the stress test of J. Kara, "ext\[24\]: `MBCache` rewrite", 2016 (the letter). Each of P processes
//! has F files. It sets an attribute of its files N times in total, to random values from a pool of V values.
//! The letter does not specify the name of the attribute, the size of a value, or the order of the files.
//! Here the name is [`ATTRIBUTE`] and the size is [`VALUE_BYTES`]; a process sets the attribute of its files
//! in turn.
//!
//! # Invariants
//! 1. The operations depend only on the case and the seed. They are the same on every [`Target`] and with
//!    every variant of mbcache.
//! 2. After each run, and not in the measured time, every file is verified to have the value that was set
//!    last.

mod directory;
mod draws;
pub(crate) mod engine;
mod error;
mod image;
mod measured;
mod report;
#[cfg(test)]
mod tests;
mod volume;

pub use directory::{Worker, work};
pub use error::Error;
pub(crate) use image::formatted;
pub(crate) use measured::EntrySize;
pub use measured::{Measured, XattrBench};

use image::Image;
use larder::{AttributeStats, MbCacheVariant};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The name of the attribute.
pub const ATTRIBUTE: &str = "user.xattr-bench";

/// Size of a value in bytes: too large for an inode of 256 bytes, so that it is stored in a block.
pub const VALUE_BYTES: usize = 256;

/// Numbers of processes, files of each process, and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Number of processes or threads (P).
    pub processes: u32,
    /// Number of files of each process (F).
    pub files: u32,
    /// Number of values in the pool (V).
    pub values: u32,
}

impl Case {
    /// The letter's numbers of processes.
    pub const PROCESSES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
    /// The letter's numbers of files.
    pub const FILES: [u32; 3] = [10, 100, 1000];
    /// The letter's numbers of values.
    pub const VALUES: [u32; 5] = [10, 100, 1000, 10_000, 100_000];

    /// Returns all combinations of these numbers, in the order of the letter: by V, then F, then P.
    #[must_use]
    pub fn matrix(processes: &[u32], files: &[u32], values: &[u32]) -> Vec<Self> {
        let mut cases = Vec::new();
        for &values in values {
            for &files in files {
                cases.extend(processes.iter().map(|&processes| Self {
                    processes,
                    files,
                    values,
                }));
            }
        }
        cases
    }

    /// Returns the number of files of all processes.
    #[must_use]
    pub fn all_files(&self) -> u64 {
        u64::from(self.processes) * u64::from(self.files)
    }
}

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchConfig {
    /// Number of sets by each process; 50,000 in the letter.
    pub operations: u32,
    /// Number of runs of each case; 5 in the letter.
    pub runs: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The target of a bench.
#[derive(Clone, Debug)]
pub enum Target {
    /// The cache alone, used by threads: see [`engine`].
    Engine(MbCacheVariant),
    /// A volume in this process, on an in-memory device with an ext4 file system without a journal, used by
    /// threads.
    Volume(MbCacheVariant),
    /// A directory of a mounted file system, on which processes call setxattr(2).
    Directory {
        /// The directory in which a subdirectory for the files is created and, afterwards, removed.
        path: PathBuf,
        /// The program that each process runs.
        worker: Worker,
    },
}

impl Target {
    /// Returns the variant, or `None` for a directory: the mount of its file system selects the variant.
    #[must_use]
    pub fn variant(&self) -> Option<MbCacheVariant> {
        match self {
            Self::Engine(variant) | Self::Volume(variant) => Some(*variant),
            Self::Directory { .. } => None,
        }
    }
}

/// Measures one case on each of `targets`. The targets take turns, so that changes of the machine's
/// speed affect all of them. Calls `run_done` after each run.
///
/// # Errors
/// Returns an error if a target cannot be used, or loses a value that was set.
pub fn measure(
    targets: &[Target],
    case: Case,
    config: &BenchConfig,
    run_done: &mut dyn FnMut(),
) -> Result<Vec<Measured>, Error> {
    let new = |target: &Target| Measured::new(case, config, target.variant());
    let mut measured: Vec<Measured> = targets.iter().map(new).collect();
    let mut image = None;
    for _ in 0..config.runs {
        for (target, measured) in targets.iter().zip(&mut measured) {
            let run = match target {
                Target::Engine(variant) => engine::run(*variant, case, config)?,
                Target::Volume(variant) => {
                    let image = match &mut image {
                        Some(image) => image,
                        none => none.insert(Image::new(case)?),
                    };
                    volume::run(image, *variant, case, config)?
                }
                Target::Directory { path, worker } => directory::run(path, worker, case, config)?,
            };
            measured.push(&run);
            run_done();
        }
    }
    Ok(measured)
}

/// Measures all `cases` on each of `targets`, which have the common name `name`.
///
/// # Errors
/// Returns the errors of [`measure`].
pub fn measure_all(
    name: &str,
    targets: &[Target],
    cases: &[Case],
    config: &BenchConfig,
    run_done: &mut dyn FnMut(),
) -> Result<XattrBench, Error> {
    let mut all = Vec::new();
    for case in cases {
        all.extend(measure(targets, *case, config, run_done)?);
    }
    Ok(XattrBench {
        target: name.to_owned(),
        config: *config,
        measured: all,
    })
}

/// One run of a case.
#[derive(Debug)]
struct Run {
    elapsed: Duration,
    stats: Option<AttributeStats>,
}
