//! What is measured: recorded scripts on volumes, one for each kernel.
//!
//! # Model
//! A kernel is a volume with its tables, which stays open over all runs of a table, as a kernel
//! stays up. For each run the users' homes are made anew; then all of them begin at once, and what is
//! timed and counted is from there to the last one's end. Kernels are run in turn.
//!
//! The image is one of the time: ext2 with blocks of 1 KiB, inodes of 128 bytes, one for each 4 KiB.

use super::kernels::{Kernel, PublishedTable};
use super::{Error, Size};
use crate::mke2fs;
use crate::operations::{Name, Operations, Players, share};
use crate::sdm::Runs;
use crate::together::together;
use larder::{CacheKind, OpenOptions, Volume};
use larder_block::{MemoryDevice, OverlayDevice};
use larder_cache::table::histogram::Report;
use serde::Serialize;
use std::io::Read;
use std::sync::Arc;

/// Room for 128 users, in 64 groups of blocks.
const IMAGE_BYTES: u64 = 512 << 20;

/// An ext2 as mke2fs made it then.
const EXT2: [&str; 12] = [
    "-t",
    "ext2",
    "-O",
    "none,filetype,sparse_super",
    "-b",
    "1024",
    "-I",
    "128",
    "-i",
    "4096",
    "-m",
    "0",
];

/// The image, with what users share.
pub(super) struct Image {
    bytes: Arc<[u8]>,
    operations: Operations,
    seed: u64,
}

/// A row of a table of ours.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Its tables.
    pub tables: &'static str,
    /// Whether the document has this row.
    pub is_published: bool,
    /// One for each number of scripts at once.
    pub loads: Vec<Load>,
}

/// A kernel under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// Its runs.
    pub runs: Runs,
    /// What the caches did in the runs, and how they were at the end of the last.
    pub caches: Vec<CacheFigures>,
    /// Reads of the device in the runs.
    pub device_reads: u64,
}

/// A cache's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheFigures {
    /// The cache.
    pub cache: CacheKind,
    /// Lookups in the runs.
    pub lookups: u64,
    /// How many were hits.
    pub hits: u64,
    /// Links that they walked.
    pub links: u64,
    /// Length of the longest chain at the end of the last run.
    pub longest_chain: u64,
    /// The share of objects in chains of more than 15 then.
    pub long_share: f64,
    /// The table then: when it is full.
    #[serde(skip)]
    pub full: Report,
    /// The table when the homes were removed after it.
    #[serde(skip)]
    pub after: Report,
}

impl CacheFigures {
    /// Links of a lookup.
    #[must_use]
    pub fn links_a_lookup(&self) -> f64 {
        quotient(self.links, self.lookups)
    }
}

impl Load {
    /// A cache's figures.
    ///
    /// # Panics
    /// Never: there are figures of each.
    #[must_use]
    pub fn cache(&self, cache: CacheKind) -> &CacheFigures {
        let mut caches = self.caches.iter();
        caches
            .find(|figures| figures.cache == cache)
            .expect("figures of every cache")
    }

    /// Links that a script walks in all caches.
    #[must_use]
    pub fn links_a_script(&self) -> f64 {
        let links = self.caches.iter().map(|figures| figures.links).sum();
        let scripts = u64::from(self.runs.users) * self.runs.elapsed_s.len() as u64;
        quotient(links, scripts)
    }
}

/// The share of objects in chains of more than 15.
fn long_share(report: &Report) -> f64 {
    let rows = report.histogram.rows();
    let long = rows.filter(|(length, ..)| length.is_none());
    quotient(
        long.map(|(.., objects)| objects).sum(),
        report.histogram.objects(),
    )
}

#[expect(clippy::cast_precision_loss, reason = "counts of a report")]
fn quotient(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

impl Image {
    pub(super) fn new(operations: Operations, seed: u64) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        mke2fs::formatted(IMAGE_BYTES, &EXT2)?
            .read_to_end(&mut bytes)
            .map_err(Error::Image)?;
        let device = Arc::new(MemoryDevice::new(bytes));
        let volume = Volume::open_device(Arc::clone(&device) as _, &options())?;
        share(&volume, &operations, seed)?;
        volume.close()?;
        drop(volume);
        Ok(Self {
            bytes: device.to_bytes().into(),
            operations,
            seed,
        })
    }

    /// A volume with the tables of `kernel`, on what looks like a copy.
    pub(super) fn open(&self, kernel: &Kernel, memory_bytes: u64) -> Result<Volume, Error> {
        let device = OverlayDevice::new(Arc::clone(&self.bytes));
        Ok(Volume::open_device(
            Arc::new(device),
            &options_of(kernel, memory_bytes),
        )?)
    }

    /// A volume as [`Image::open`] opens it, on which `users` have their homes, and nothing is cached;
    /// and names of files in the homes.
    pub(super) fn with_homes(
        &self,
        kernel: &Kernel,
        memory_bytes: u64,
        users: u32,
    ) -> Result<(Volume, Vec<Name>), Error> {
        let options = options_of(kernel, memory_bytes);
        let device = Arc::new(OverlayDevice::new(Arc::clone(&self.bytes)));
        let volume = Volume::open_device(Arc::clone(&device) as _, &options)?;
        let names = Players::new(&volume, &self.operations, users, self.seed)?.files();
        volume.close()?;
        drop(volume);
        Ok((Volume::open_device(device, &options)?, names))
    }

    /// All kernels of a table under all of its loads.
    pub(super) fn measure(
        &self,
        table: &PublishedTable,
        size: &Size,
        run_done: &mut dyn FnMut(),
    ) -> Result<Vec<Row>, Error> {
        let kernels: Vec<&Kernel> = table.kernels.iter().collect();
        let mut rows: Vec<Row> = kernels.iter().map(|kernel| Row::new(kernel)).collect();
        for &users in table.loads {
            let users = size.users(users);
            let loads = self.load(
                &kernels,
                users,
                size.memory_bytes(table.memory),
                size.runs,
                run_done,
            )?;
            for (row, load) in rows.iter_mut().zip(loads) {
                row.loads.push(load);
            }
        }
        Ok(rows)
    }

    fn load(
        &self,
        kernels: &[&Kernel],
        users: u32,
        memory_bytes: u64,
        runs: u32,
        run_done: &mut dyn FnMut(),
    ) -> Result<Vec<Load>, Error> {
        let volumes: Vec<Volume> = kernels
            .iter()
            .map(|kernel| self.open(kernel, memory_bytes))
            .collect::<Result<_, _>>()?;
        let mut loads: Vec<Option<Load>> = volumes.iter().map(|_| None).collect();
        for _ in 0..runs {
            for (volume, load) in volumes.iter().zip(&mut loads) {
                let run = self.run(volume, users)?;
                match load {
                    None => *load = Some(run),
                    Some(load) => load.add(run),
                }
                run_done();
            }
        }
        volumes.iter().try_for_each(Volume::close)?;
        Ok(loads.into_iter().flatten().collect())
    }

    /// One run.
    fn run(&self, volume: &Volume, users: u32) -> Result<Load, Error> {
        let players = Players::new(volume, &self.operations, users, self.seed)?;
        let before = CacheKind::ALL.map(|cache| volume.histogram(cache));
        let reads_before = volume.stats().device.reads;
        let (elapsed, ends) = together(users, |user| {
            let user = players.user(user);
            move || user.replay(volume)
        });
        let full = CacheKind::ALL.map(|cache| volume.histogram(cache));
        let device_reads = volume.stats().device.reads - reads_before;
        ends.into_iter().collect::<Result<(), _>>()?;
        players.remove(volume)?;
        let caches = before.into_iter().zip(full).map(|(before, full)| {
            let (counts, earlier) = (full.counts, before.counts);
            CacheFigures {
                cache: full.cache,
                lookups: counts.lookups() - earlier.lookups(),
                hits: counts.hits - earlier.hits,
                links: counts.links() - earlier.links(),
                longest_chain: full.histogram.longest_chain(),
                long_share: long_share(&full),
                after: volume.histogram(full.cache),
                full,
            }
        });
        Ok(Load {
            runs: Runs {
                users,
                elapsed_s: vec![elapsed.as_secs_f64()],
            },
            caches: caches.collect(),
            device_reads,
        })
    }
}

impl Row {
    fn new(kernel: &Kernel) -> Self {
        Self {
            kernel: kernel.name,
            tables: kernel.tables,
            is_published: kernel.is_published,
            loads: Vec::new(),
        }
    }
}

impl Load {
    /// Adds a later run.
    fn add(&mut self, run: Self) {
        self.runs.elapsed_s.extend(run.runs.elapsed_s);
        self.device_reads += run.device_reads;
        for (sum, figures) in self.caches.iter_mut().zip(run.caches) {
            *sum = CacheFigures {
                lookups: sum.lookups + figures.lookups,
                hits: sum.hits + figures.hits,
                links: sum.links + figures.links,
                ..figures
            };
        }
    }
}

/// As of a system of the time: no attributes are shared, and nothing is done but what users ask for.
fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options
}

/// [`options`] with the tables of `kernel` and so much memory.
fn options_of(kernel: &Kernel, memory_bytes: u64) -> OpenOptions {
    let mut options = options();
    options.cache_size_bytes = memory_bytes;
    options.tables = kernel.tables();
    options
}
