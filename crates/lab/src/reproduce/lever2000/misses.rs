//! Compares the cost of a miss in the dentry cache with the cost of a miss in the page cache.
//!
//! # Model
//! A volume is opened on an image with files; its caches are empty. Each name is looked up twice: the first
//! lookup misses in the dentry cache, the second one hits. Likewise, the first page of each file is read
//! twice. As in a kernel, the first lookups also read the blocks of the directory and of the inodes. The
//! device is memory. A disk would add its access time to each page miss, and to the first lookup in each
//! directory block.

use super::error::Error;
use super::image::Image;
use super::kernels::{Kernel, Machine};
use crate::operations::Name;
use crate::statistics::{Interval, median};
use larder::Volume;
use serde::Serialize;
use std::time::Instant;

/// Number of homes whose files are accessed.
const USERS: u32 = 64;

const MEMORY_BYTES: u64 = (Machine::WITHOUT_PROGRAMS.memory_mib as u64) << 20;

/// Number of rounds, which takes seconds. An interval needs five; few rounds have wide intervals.
const ROUNDS: u32 = 30;

/// Times of one miss and of one hit, in nanoseconds: medians of several rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Misses {
    /// A lookup of a name that is not in the dentry cache.
    pub dentry_miss_ns: f64,
    pub dentry_hit_ns: f64,
    /// A read of a page that is not in the page cache.
    pub page_miss_ns: f64,
    pub page_hit_ns: f64,
    /// The four times of each round, in the same order.
    pub rounds: Vec<[f64; 4]>,
}

impl Misses {
    pub(super) fn measure(image: &Image) -> Result<Self, Error> {
        let kernel = Kernel {
            name: "larder",
            tables: "larder",
            is_published: false,
        };
        let rounds = (0..ROUNDS).map(|_| {
            let (volume, homes) = image.with_homes(&kernel, MEMORY_BYTES, USERS)?;
            round(&volume, &homes)
        });
        Ok(Self::of(rounds.collect::<Result<_, Error>>()?))
    }

    /// Computes the medians of `rounds`.
    pub(super) fn of(rounds: Vec<[f64; 4]>) -> Self {
        let median = |at: usize| {
            let figures: Vec<f64> = rounds.iter().map(|round| round[at]).collect();
            median(&figures)
        };
        Self {
            dentry_miss_ns: median(0),
            dentry_hit_ns: median(1),
            page_miss_ns: median(2),
            page_hit_ns: median(3),
            rounds,
        }
    }

    /// Returns the time of a dentry miss divided by the time of a page miss in the same round.
    pub(super) fn dentry_per_page(&self) -> Interval {
        let rounds = self.rounds.iter();
        let pairs: Vec<_> = rounds.map(|&[dentry, _, page, _]| (dentry, page)).collect();
        Interval::of_paired_ratio(&pairs)
    }
}

fn round(volume: &Volume, names: &[Name]) -> Result<[f64; 4], Error> {
    let mut files = Vec::new();
    let mut look_up = || -> larder::Result<()> {
        files = names
            .iter()
            .map(|(home, name)| volume.lookup(*home, name))
            .collect::<larder::Result<_>>()?;
        Ok(())
    };
    let count = names.len();
    let (miss, hit) = (timed(count, &mut look_up)?, timed(count, &mut look_up)?);
    let mut page = [0; 4096];
    let opened: Vec<_> = files
        .iter()
        .map(|ino| volume.open_file(*ino))
        .collect::<larder::Result<_>>()?;
    let mut read = || {
        opened
            .iter()
            .try_for_each(|file| file.read_at(&mut page, 0).map(drop))
    };
    Ok([
        miss,
        hit,
        timed(count, &mut read)?,
        timed(count, &mut read)?,
    ])
}

/// Returns the nanoseconds for each of `count` operations that `work` executes.
#[expect(clippy::cast_precision_loss, reason = "some thousand files")]
fn timed(count: usize, work: &mut dyn FnMut() -> larder::Result<()>) -> Result<f64, Error> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e9 / count as f64)
}
