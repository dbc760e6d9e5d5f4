//! xattr-bench: processes that set attributes with values from a pool.
//!
//! # Model
//! The stress test of J. Kara, "ext\[24\]: `MBCache` rewrite", 2016: each of P processes sets the
//! attribute of F files of its own to values that it draws from a pool of V, N times. The letter
//! says neither the attribute's name, nor the size of a value, nor in which order the files come;
//! ours are [`ATTRIBUTE`], [`VALUE_BYTES`], and one file after the other.
//!
//! # Invariants
//! 1. The same seed gives the same operations on every [`Target`], with every variant.
//! 2. After each run, outside its time, every file is found to have the value that was set last.

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

/// The attribute that is set.
pub const ATTRIBUTE: &str = "user.xattr-bench";

/// Bytes of a value: more than an inode of 256 bytes has room for, so that it goes into a block.
pub const VALUE_BYTES: usize = 256;

/// Processes, files of each, and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    /// All cases of these numbers, in the order of the letter: by V, then F, then P.
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

    /// Files of all processes.
    #[must_use]
    pub fn all_files(&self) -> u64 {
        u64::from(self.processes) * u64::from(self.files)
    }
}

/// How a case is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchConfig {
    /// Sets by each process. The letter: 50,000.
    pub operations: u32,
    /// Runs of each case. The letter: 5.
    pub runs: u32,
    /// What chance is drawn from.
    pub seed: u64,
}

/// What is driven.
#[derive(Clone, Debug)]
pub enum Target {
    /// The cache alone, by threads: see [`engine`].
    Engine(MbCacheVariant),
    /// A volume in this process, on a memory device with an ext4 without a journal, by threads.
    Volume(MbCacheVariant),
    /// A directory of a mounted file system, by setxattr(2) in processes.
    Directory {
        /// Where the files are made, in a subdirectory that is removed afterwards.
        path: PathBuf,
        /// What each process runs.
        worker: Worker,
    },
}

impl Target {
    /// The variant; `None` if the file system has its own.
    #[must_use]
    pub fn variant(&self) -> Option<MbCacheVariant> {
        match self {
            Self::Engine(variant) | Self::Volume(variant) => Some(*variant),
            Self::Directory { .. } => None,
        }
    }
}

/// Measures one case on each of `targets`, run by run in turn, so that what disturbs the machine
/// meanwhile disturbs all of them. `run_done` is told of each run.
///
/// # Errors
/// [`Error`] if a target cannot be driven, or does not keep what was set.
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

/// Measures all `cases` on each of `targets`, which are called `name` together.
///
/// # Errors
/// As [`measure`].
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
