//! xattr-bench: a benchmark in which processes set extended attributes to values from a pool.
//!
//! # Model
//! This is the stress test of J. Kara, "ext\[24\]: `MBCache` rewrite", 2016 (the letter). Each of P processes
//! has F files. A process sets an attribute of its files N times in total, to random values from a pool of V values.
//! The letter does not specify the name of the attribute, the size of a value, or the order of the files.
//! Here the name is [`ATTRIBUTE`] and the size is [`VALUE_BYTES`]; a process sets the attribute of its files
//! in turn.
//!
//! # Invariants
//! 1. The operations depend only on the case and the seed. They are the same on every [`Target`] and with
//!    every variant of mbcache.
//! 2. After each run, and not in the measured time, every file is verified to have the value that was set
//!    last.

mod case;
mod commits;
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

pub use case::{ATTRIBUTE, BenchConfig, Case, VALUE_BYTES};
pub use commits::{Commits, MeanCommits};
pub use directory::{Worker, work};
pub use error::Error;
pub(crate) use image::formatted;
pub(crate) use measured::EntrySize;
pub use measured::{Measured, XattrBench};

use case::Run;
use engine::Blocks;
use image::{Image, Room};
use larder::MbCacheVariant;
use std::path::PathBuf;

/// The target of a bench.
#[derive(Clone, Debug)]
pub enum Target {
    /// The cache alone, used by threads: see [`engine`].
    Engine(MbCacheVariant),
    /// As [`Target::Engine`], but an entry stays reusable when its block is full.
    EngineWithoutFlag(MbCacheVariant),
    /// A volume in this process, on an in-memory device with an ext4 file system with a journal, used by
    /// threads.
    Volume(MbCacheVariant),
    /// As [`Target::Volume`], but searches also examine full blocks.
    VolumeWithoutFlag(MbCacheVariant),
    /// As [`Target::Volume`], but the file system has no journal.
    VolumeWithoutJournal(MbCacheVariant),
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
            Self::Engine(variant)
            | Self::EngineWithoutFlag(variant)
            | Self::Volume(variant)
            | Self::VolumeWithoutFlag(variant)
            | Self::VolumeWithoutJournal(variant) => Some(*variant),
            Self::Directory { .. } => None,
        }
    }
}

/// Measures one case on each of `targets`. The targets take turns, so that changes of the machine's
/// speed affect all of them. Each round of turns begins with another target, so that none is always the first one.
/// Calls `run_done` after each run.
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
    // Without a journal, and with one.
    let mut images = [None, None];
    for round in 0..config.runs as usize {
        for at in turns(targets.len(), round) {
            let target = &targets[at];
            let run = match target {
                Target::Engine(variant) => {
                    engine::run(*variant, case, config, &Blocks::new(case, config))?
                }
                Target::EngineWithoutFlag(variant) => {
                    let blocks = Blocks::new(case, config).without_reusable_flag();
                    engine::run(*variant, case, config, &blocks)?
                }
                Target::Volume(variant)
                | Target::VolumeWithoutFlag(variant)
                | Target::VolumeWithoutJournal(variant) => {
                    let has_journal = !matches!(target, Target::VolumeWithoutJournal(_));
                    let image = match &mut images[usize::from(has_journal)] {
                        Some(image) => image,
                        none => none.insert(Image::new(case, room(targets, case), has_journal)?),
                    };
                    let examines_full = matches!(target, Target::VolumeWithoutFlag(_));
                    let volume = image.open(*variant, examines_full)?;
                    volume::run(&volume, &image.files, case, config)?
                }
                Target::Directory { path, worker } => directory::run(path, worker, case, config)?,
            };
            measured[at].push(&run);
            run_done();
        }
    }
    Ok(measured)
}

/// Returns the order in which `targets` targets run in a round.
fn turns(targets: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..targets).map(move |turn| (round + turn) % targets)
}

/// Returns the room that the image of a volume needs for the attributes of all files.
fn room(targets: &[Target], case: Case) -> Room {
    let is_shared = |target: &Target| target.variant() != Some(MbCacheVariant::Off);
    if case.values <= Room::SHARED_VALUES && targets.iter().all(is_shared) {
        Room::Shared
    } else {
        Room::EachFile
    }
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
