//! Compares the cost of a miss in the dentry cache with that of a miss in the page cache.
//!
//! # Model
//! A volume is opened on an image with files; its caches are empty. Each name is looked up twice: the first
//! lookup misses in the dentry cache, the second one hits. Likewise, the first page of each file is read
//! twice. As in a kernel, the first lookups also read the blocks of the directory and of the inodes. The
//! device is memory. A disk would add its access time to each page miss, and to the first name of each
//! directory block.

use super::error::Error;
use super::image::Image;
use super::kernels::{Kernel, Memory};
use crate::operations::Name;
use crate::statistics::median;
use larder::Volume;
use serde::Serialize;
use std::time::Instant;

/// Number of homes whose files are accessed.
const USERS: u32 = 64;

/// Times of one miss and of one hit, in nanoseconds: medians of several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are keys of the JSON")]
pub struct Misses {
    /// A lookup of a name that is not in the dentry cache.
    pub dentry_miss_ns: f64,
    pub dentry_hit_ns: f64,
    /// A read of a page that is not in the page cache.
    pub page_miss_ns: f64,
    pub page_hit_ns: f64,
}

impl Misses {
    pub(super) fn measure(image: &Image, rounds: u32) -> Result<Self, Error> {
        let kernel = Kernel {
            name: "larder",
            tables: "larder",
            is_published: false,
        };
        let mut figures = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            let (volume, homes) = image.with_homes(&kernel, Memory::Large.bytes(), USERS)?;
            for (figures, figure) in figures.iter_mut().zip(round(&volume, &homes)?) {
                figures.push(figure);
            }
        }
        let [dentry_miss_ns, dentry_hit_ns, page_miss_ns, page_hit_ns] =
            figures.map(|figures| median(&figures));
        Ok(Self {
            dentry_miss_ns,
            dentry_hit_ns,
            page_miss_ns,
            page_hit_ns,
        })
    }

    /// Returns the number of dentry misses that take as long as one page miss.
    pub fn dentries_per_page(&self) -> f64 {
        self.page_miss_ns / self.dentry_miss_ns
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
