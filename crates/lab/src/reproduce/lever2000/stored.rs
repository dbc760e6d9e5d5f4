//! Reads the measurements in the JSON of a report, so that they can be judged again.
//!
//! # Model
//! The JSON of a report contains measured and computed values. The measured ones are read, and two that require the
//! image: the times of simulated disks, and the chains of pages with other addresses of inodes. The program that judges
//! computes all others again.
//!
//! # Invariants
//! 1. The tables have the kernels, the loads, and the numbers of runs of this program.
//! 2. Times are positive, and counts are small enough for sums and differences of the findings.
//! 3. The chains with other addresses are those of the layouts and kernels of this program. Their links are positive.

use super::addresses::{self, Allocation, Layout, PageChains};
use super::costs::FunctionCost;
use super::disk::{DiskCosts, DiskMisses, Placement};
use super::error::Error;
use super::kernel_run::Chains;
use super::kernels::{Kernel, PublishedTable, TABLES};
use super::measure::{CacheFigures, Load, Row};
use super::misses::Misses;
use super::results::Measurements;
use super::runs::{RoundTimes, Runs};
use super::size::Size;
use super::turn::EmptyTurn;
use crate::reproduce::program::Program;
use crate::statistics::Interval;
use larder::CacheKind;
use larder_cache::table::Counts;
use larder_cache::table::histogram::Report;
use larder_instruments::simulated::DeviceModel;
use serde::Deserialize;

/// The largest time, in the unit of the value.
const MAX_TIME: f64 = 1e12;

/// The largest count of lookups or links. Sums of many such counts fit into 64 bits.
const MAX_COUNT: u64 = 1 << 53;

/// The largest number of buckets, of scripts, and of objects in a chain. Products of two such numbers fit into 64 bits.
const MAX_CHAIN: u64 = 1 << 24;

#[derive(Deserialize)]
struct Stored {
    #[serde(flatten)]
    size: Size,
    processors: usize,
    resumed: u32,
    tables: Vec<Vec<StoredRow>>,
    misses: StoredMisses,
    disk_misses: StoredDiskMisses,
    costs: Vec<FunctionCost>,
    empty_turn: EmptyTurn,
    layouts: Vec<StoredLayout>,
    provenance: StoredProvenance,
}

#[derive(Deserialize)]
struct StoredProvenance {
    measured: Program,
}

#[derive(Deserialize)]
struct StoredRow {
    kernel: String,
    tables: String,
    loads: Vec<StoredLoad>,
}

#[derive(Deserialize)]
struct StoredLoad {
    runs: StoredRuns,
    caches: Vec<StoredCache>,
    device_reads: u64,
    turns: u64,
}

#[derive(Deserialize)]
struct StoredRuns {
    users: u32,
    scripts: u64,
    /// Only the number of runs counts: their times are computed again.
    elapsed_s: Vec<f64>,
    round_elapsed_s: Vec<f64>,
    round_processor_s: Vec<f64>,
}

#[derive(Deserialize)]
struct StoredCache {
    lookups: u64,
    hits: u64,
    links: u64,
    links_on_misses: u64,
    full: Report,
    after: Report,
}

#[derive(Deserialize)]
struct StoredMisses {
    rounds: Vec<[f64; 4]>,
}

#[derive(Deserialize)]
struct StoredDiskMisses {
    seeds: u64,
    files: u64,
    reads_per_dentry_miss: Interval,
    dentry_misses_that_read: Interval,
    reads_per_cached_dentry_miss: Interval,
    reads_per_page_fault: Interval,
    devices: Vec<StoredDevice>,
}

#[derive(Deserialize)]
struct StoredDevice {
    device: String,
    placement: Placement,
    per_seed_ms: Vec<[f64; 3]>,
}

#[derive(Deserialize)]
struct StoredLayout {
    inode_bytes: u64,
    allocation: Allocation,
    chains: Vec<StoredChains>,
}

#[derive(Deserialize)]
struct StoredChains {
    table: usize,
    kernel: String,
    links: f64,
    range: Option<[f64; 2]>,
}

/// A value, or the reason why it cannot be judged.
type Checked<T> = Result<T, String>;

/// Returns the measurements in `json`, and the program that measured.
///
/// # Errors
/// Returns an error if `json` is not the JSON of a report, or if its measurements violate an invariant of this module.
pub(super) fn read(json: &[u8]) -> Result<(Measurements, Program), Error> {
    let stored: Stored = serde_json::from_slice(json)?;
    stored.checked().map_err(Error::Measurements)
}

impl Stored {
    fn checked(self) -> Checked<(Measurements, Program)> {
        let size = self.size;
        require(size.divisor > 0, "the divisor is 0")?;
        require(self.tables.len() == TABLES.len(), "a table is missing")?;
        let tables = TABLES.iter().zip(self.tables).map(|(table, rows)| {
            let rows = rows_of(table, rows, &size);
            rows.map_err(|what| format!("Table {}: {what}", table.number))
        });
        let measured = Measurements {
            size,
            processors: self.processors,
            resumed: self.resumed,
            tables: tables.collect::<Checked<_>>()?,
            misses: self.misses.checked()?,
            disk_misses: self.disk_misses.checked()?,
            costs: self.costs,
            empty_turn: self.empty_turn,
            layouts: layouts(self.layouts)?,
        };
        let program = self.provenance.measured;
        let what = "the description of the program that measured contains markup";
        require(program.is_printable(), what)?;
        Ok((measured, program))
    }
}

fn require(is_valid: bool, what: &str) -> Checked<()> {
    if is_valid {
        Ok(())
    } else {
        Err(what.to_owned())
    }
}

fn rows_of(table: &PublishedTable, rows: Vec<StoredRow>, size: &Size) -> Checked<Vec<Row>> {
    require(rows.len() == table.kernels.len(), "a kernel is missing")?;
    let rows = table.kernels.iter().zip(rows).map(|(kernel, row)| {
        row.checked(table, kernel, size)
            .map_err(|what| format!("{}: {what}", kernel.name))
    });
    let rows: Vec<Row> = rows.collect::<Checked<_>>()?;
    let rounds = |row: &Row| -> Vec<usize> {
        let loads = row.loads.iter();
        loads.map(|load| load.runs.round_elapsed_s.len()).collect()
    };
    let mut kernels = rows.iter().map(rounds);
    let first = kernels.next();
    let are_pairs = kernels.all(|rounds| Some(rounds) == first);
    require(are_pairs, "kernels have different numbers of rounds")?;
    Ok(rows)
}

impl StoredRow {
    fn checked(self, table: &PublishedTable, kernel: &Kernel, size: &Size) -> Checked<Row> {
        let is_same = self.kernel == kernel.name && self.tables == kernel.tables;
        require(is_same, "another kernel has this place")?;
        require(self.loads.len() == table.loads.len(), "a load is missing")?;
        let loads = table.loads.iter().zip(self.loads);
        let loads = loads.map(|(users, load)| load.checked(table, size.users(*users), size));
        Ok(Row {
            kernel: kernel.name,
            tables: kernel.tables,
            is_published: kernel.is_published,
            loads: loads.collect::<Checked<_>>()?,
        })
    }
}

impl StoredLoad {
    fn checked(self, table: &PublishedTable, users: u32, size: &Size) -> Checked<Load> {
        require(self.runs.users == users, "the number of scripts differs")?;
        let counts = [self.device_reads, self.turns];
        let are_small = counts.iter().all(|count| *count <= MAX_COUNT);
        require(are_small, "a count is too large")?;
        let kinds = self.caches.iter().map(|cache| cache.full.cache);
        require(kinds.eq(CacheKind::ALL), "a cache is missing")?;
        let caches = self.caches.into_iter().map(|cache| cache.checked(size));
        Ok(Load {
            runs: self.runs.checked(table, size)?,
            caches: caches.collect::<Checked<_>>()?,
            device_reads: self.device_reads,
            turns: self.turns,
        })
    }
}

impl StoredRuns {
    fn checked(self, table: &PublishedTable, size: &Size) -> Checked<Runs> {
        let (runs, rounds) = (size.runs(table) as usize, self.round_elapsed_s.len());
        require(self.elapsed_s.len() == runs, "the number of runs differs")?;
        let are_paired = rounds == self.round_processor_s.len();
        let are_equal = rounds > 0 && rounds.checked_rem(runs) == Some(0);
        require(are_paired && are_equal, "runs lack rounds")?;
        let run_rounds = rounds / runs;
        let scripts = self.scripts / run_rounds as u64;
        let is_multiple = scripts * run_rounds as u64 == self.scripts;
        let is_possible = (1..=MAX_CHAIN).contains(&scripts);
        require(is_multiple && is_possible, "the number of scripts is wrong")?;
        let times = self.round_elapsed_s.into_iter().zip(self.round_processor_s);
        let times = times.map(|(elapsed_s, processor_s)| RoundTimes {
            scripts,
            elapsed_s,
            processor_s,
        });
        let times: Vec<RoundTimes> = times.collect();
        let is_valid = |round: &RoundTimes| are_times(&[round.elapsed_s, round.processor_s]);
        require(times.iter().all(is_valid), "a time is out of range")?;
        Ok(Runs::of(self.users, table.average, run_rounds, &times))
    }
}

impl StoredCache {
    fn checked(self, size: &Size) -> Checked<CacheFigures> {
        let is_subset = self.hits <= self.lookups && self.links_on_misses <= self.links;
        let are_small = self.lookups <= MAX_COUNT && self.links <= MAX_COUNT;
        require(is_subset && are_small, "counts of lookups contradict")?;
        let chains = Chains {
            full: self.full,
            after: self.after,
        };
        require(
            chains.after.cache == chains.full.cache,
            "caches are mixed up",
        )?;
        for report in [&chains.full, &chains.after] {
            require(is_possible(report), "a histogram is out of range")?;
        }
        let has_trees = chains.full.cache == CacheKind::Page && chains.full.trees.is_some();
        // In a quick run, eager shrinking can leave a cache empty.
        let can_be_empty = has_trees || !size.is_full();
        require(
            can_be_empty || chains.full.histogram.objects() > 0,
            "a cache is empty",
        )?;
        let counts = Counts {
            hits: self.hits,
            misses: self.lookups - self.hits,
            links_on_hits: self.links - self.links_on_misses,
            links_on_misses: self.links_on_misses,
        };
        Ok(CacheFigures::of(&chains, counts))
    }
}

/// Returns whether all counts of `report` are small enough.
fn is_possible(report: &Report) -> bool {
    let Counts {
        hits,
        misses,
        links_on_hits,
        links_on_misses,
    } = report.counts;
    let counts = [hits, misses, links_on_hits, links_on_misses];
    let mut buckets = 0_u64;
    let are_short = report.histogram.lengths().all(|(length, number)| {
        buckets = buckets.saturating_add(number);
        length <= MAX_CHAIN
    });
    are_short && buckets <= MAX_CHAIN && counts.iter().all(|count| *count <= MAX_COUNT)
}

/// Returns whether all of `times` are positive, and not too large.
fn are_times(times: &[f64]) -> bool {
    times.iter().all(|time| *time > 0.0 && *time <= MAX_TIME)
}

impl StoredMisses {
    fn checked(self) -> Checked<Misses> {
        let are_valid = !self.rounds.is_empty() && self.rounds.iter().all(|round| are_times(round));
        require(are_valid, "misses: a time is missing or out of range")?;
        Ok(Misses::of(self.rounds))
    }
}

impl StoredDiskMisses {
    fn checked(self) -> Checked<DiskMisses> {
        let devices = self.devices.into_iter().map(|device| {
            let Ok(model) = DeviceModel::named(&device.device) else {
                return Err("misses with a disk: unknown device".to_owned());
            };
            let seeds = &device.per_seed_ms;
            let are_valid = !seeds.is_empty() && seeds.iter().all(|times| are_times(times));
            require(
                are_valid,
                "misses with a disk: a time is missing or out of range",
            )?;
            Ok(DiskCosts::of(
                model.name,
                device.placement,
                device.per_seed_ms,
            ))
        });
        Ok(DiskMisses {
            seeds: self.seeds,
            files: self.files,
            reads_per_dentry_miss: self.reads_per_dentry_miss,
            dentry_misses_that_read: self.dentry_misses_that_read,
            reads_per_cached_dentry_miss: self.reads_per_cached_dentry_miss,
            reads_per_page_fault: self.reads_per_page_fault,
            devices: devices.collect::<Checked<_>>()?,
        })
    }
}

/// Returns the chains of all layouts, which must be exactly those of this program.
fn layouts(stored: Vec<StoredLayout>) -> Checked<Vec<Layout>> {
    let of_stored = stored
        .iter()
        .map(|layout| (layout.inode_bytes, layout.allocation));
    let are_all = of_stored.eq(addresses::sizes_and_allocations());
    require(are_all, "addresses of inodes: the layouts differ")?;
    stored.into_iter().map(StoredLayout::checked).collect()
}

impl StoredLayout {
    fn checked(self) -> Checked<Layout> {
        let kernels: Vec<(usize, &'static str)> = addresses::kernels().collect();
        let are_all = self.chains.len() == kernels.len();
        require(are_all, "addresses of inodes: a kernel is missing")?;
        let chains = kernels.into_iter().zip(self.chains);
        let chains = chains.map(|((table, kernel), chains)| chains.checked(table, kernel));
        Ok(Layout {
            inode_bytes: self.inode_bytes,
            allocation: self.allocation,
            chains: chains.collect::<Checked<_>>()?,
        })
    }
}

impl StoredChains {
    fn checked(self, table: usize, kernel: &'static str) -> Checked<PageChains> {
        let is_same = self.table == table && self.kernel == kernel;
        require(
            is_same,
            "addresses of inodes: another kernel has this place",
        )?;
        let [low, high] = self.range.unwrap_or([self.links; 2]);
        let is_possible = low > 0.0 && (low..=high).contains(&self.links);
        require(is_possible, "addresses of inodes: links are out of range")?;
        Ok(PageChains {
            table,
            kernel,
            links: self.links,
            range: self.range,
        })
    }
}
