//! Measures recorded scripts on volumes, one for each kernel.
//!
//! # Model
//! A kernel is represented by a volume with the kernel's hash tables. The volume stays open during all runs
//! of a table of the document. Each run creates new homes for the users, starts all users at the same time,
//! and measures time and counts until the last user is done. A round executes one run on each kernel. In
//! the tables with much memory, each user lists its [spool](super::spool) after its script.

use super::error::Error;
use super::image::Image;
use super::kernels::{Kernel, Memory, PublishedTable};
use super::size::Size;
use crate::concurrent::run_concurrently;
use crate::operations::UserHomes;
use crate::run_report::quotient;
use crate::sdm::Runs;
use larder::{CacheKind, Volume};
use larder_cache::table::histogram::Report;
use serde::Serialize;

/// A row of a measured table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The kernel's name.
    pub kernel: &'static str,
    pub tables: &'static str,
    /// Whether the document has a row for this kernel.
    pub is_published: bool,
    /// The results for each number of concurrent scripts.
    pub loads: Vec<Load>,
}

/// The results of a kernel under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    pub runs: Runs,
    /// The results of each cache: counts over all runs, and the state of its table at the end of the last
    /// run.
    pub caches: Vec<CacheFigures>,
    /// Number of device reads in the runs.
    pub device_reads: u64,
}

/// The results of one cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheFigures {
    pub cache: CacheKind,
    /// Number of lookups in the runs.
    pub lookups: u64,
    pub hits: u64,
    /// Links walked by all lookups.
    pub links: u64,
    /// Links walked by the lookups that missed.
    pub links_on_misses: u64,
    /// Length of the longest chain at the end of the last run.
    pub longest_chain: u64,
    /// The share of objects in chains of more than 15 objects, at the end of the last run.
    pub long_share: f64,
    /// The chain lengths at the end of the last run.
    #[serde(skip)]
    pub full: Report,
    /// The chain lengths after the homes were removed.
    #[serde(skip)]
    pub after: Report,
}

impl CacheFigures {
    /// Returns the mean links of a lookup.
    pub fn links_per_lookup(&self) -> f64 {
        quotient(self.links, self.lookups)
    }

    /// Returns the mean links of a lookup that misses.
    pub fn links_per_miss(&self) -> f64 {
        quotient(self.links_on_misses, self.lookups - self.hits)
    }

    /// Returns the hits in percent of the lookups.
    pub fn hit_rate_pct(&self) -> f64 {
        100.0 * quotient(self.hits, self.lookups)
    }
}

impl Load {
    /// Returns the figures of a cache.
    ///
    /// # Panics
    /// Never: each cache has figures.
    pub fn cache(&self, cache: CacheKind) -> &CacheFigures {
        let mut caches = self.caches.iter();
        caches
            .find(|figures| figures.cache == cache)
            .expect("each cache has figures")
    }

    /// Returns the links that a script walks in all caches.
    pub fn links_per_script(&self) -> f64 {
        let links = self.caches.iter().map(|figures| figures.links).sum();
        let scripts = u64::from(self.runs.users) * self.runs.elapsed_s.len() as u64;
        quotient(links, scripts)
    }
}

/// Returns the share of objects in chains of more than 15.
fn long_share(report: &Report) -> f64 {
    let rows = report.histogram.rows();
    let long = rows.filter(|(length, ..)| length.is_none());
    quotient(
        long.map(|(.., objects)| objects).sum(),
        report.histogram.objects(),
    )
}

impl Image {
    /// Measures all kernels of a table under all of its loads.
    pub(super) fn measure(
        &self,
        table: &PublishedTable,
        size: &Size,
        run_done: &mut dyn FnMut(),
    ) -> Result<Vec<Row>, Error> {
        let mut rows: Vec<Row> = table.kernels.iter().map(Row::new).collect();
        for &users in table.loads {
            let loads = self.load(table, size.users(users), size, run_done)?;
            for (row, load) in rows.iter_mut().zip(loads) {
                row.loads.push(load);
            }
        }
        Ok(rows)
    }

    fn load(
        &self,
        table: &PublishedTable,
        users: u32,
        size: &Size,
        run_done: &mut dyn FnMut(),
    ) -> Result<Vec<Load>, Error> {
        let memory_bytes = size.memory_bytes(table.memory);
        let kernels = table.kernels.iter();
        let volumes: Vec<Volume> = kernels
            .map(|kernel| self.open(kernel, memory_bytes))
            .collect::<Result<_, _>>()?;
        let mut loads: Vec<Option<Load>> = volumes.iter().map(|_| None).collect();
        for _ in 0..size.runs {
            for (volume, load) in volumes.iter().zip(&mut loads) {
                let run = self.run(volume, users, table.memory)?;
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

    /// Executes one run.
    fn run(&self, volume: &Volume, users: u32, memory: Memory) -> Result<Load, Error> {
        let homes = UserHomes::new(volume, &self.operations, users, self.seed)?;
        let before = CacheKind::ALL.map(|cache| volume.histogram(cache));
        let reads_before = volume.stats().device.reads;
        let (elapsed, ends) = run_concurrently(users, |user| {
            let replayer = homes.user(user);
            move || -> Result<(), Error> {
                replayer.replay(volume)?;
                if memory == Memory::Large {
                    self.spool.list(volume, user)?;
                }
                Ok(())
            }
        });
        let full = CacheKind::ALL.map(|cache| volume.histogram(cache));
        let device_reads = volume.stats().device.reads - reads_before;
        ends.into_iter().collect::<Result<(), _>>()?;
        homes.remove(volume)?;
        let caches = before.into_iter().zip(full).map(|(before, full)| {
            let (counts, earlier) = (full.counts, before.counts);
            CacheFigures {
                cache: full.cache,
                lookups: counts.lookups() - earlier.lookups(),
                hits: counts.hits - earlier.hits,
                links: counts.links() - earlier.links(),
                links_on_misses: counts.links_on_misses - earlier.links_on_misses,
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
                links_on_misses: sum.links_on_misses + figures.links_on_misses,
                ..figures
            };
        }
    }
}
