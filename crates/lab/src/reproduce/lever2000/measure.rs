//! Measures recorded scripts on volumes, one for each kernel.
//!
//! # Model
//! A kernel is represented by a volume with the kernel's hash tables. A run consists of as many *passes* as are needed
//! to reach the minimum duration of a run. A pass creates new homes for the users, starts all users at the same time, and measures time and counts
//! until the last user is done. After its script, each user runs [programs](super::programs), lists its
//! [spool](super::spool) and examines a [tree](super::tree) of files, depending on the table. All kernels of a
//! table execute the same number of passes.
//!
//! A *round* executes one run on each kernel. The kernels take short turns within the round, because the speed of a
//! shared machine changes within seconds: so all kernels of a round meet the same speeds, and their runs can be
//! compared in pairs. Each turn of the round begins with the next kernel, so that no kernel is always the first or the
//! last. The processors' caches then contain the memory of another kernel when a turn begins; this is the same for all
//! kernels, whose predecessor is nearly always the same.
//!
//! Each round has new volumes, on new views of the same image. A pass that is not measured fills their caches.
//! Otherwise, names of removed homes would collect in the dentry caches, and each round would walk longer chains and
//! have less memory for pages than the round before.
//!
//! Finished rounds are kept in the [state](super::state), so that an interrupted reproduction can resume.
//!
//! No thread writes back in the background, because it would disturb the kernel that runs at that time. The
//! homes are synced before the users start.

use super::error::Error;
use super::image::Image;
use super::kernel_run::{CacheRun, Chains, KernelRun};
use super::kernels::{Kernel, Machine, PublishedTable};
use super::plan::Plan;
use super::runs::Runs;
use super::size::Size;
use super::state::{FinishedRound, State};
use crate::concurrent::run_concurrently;
use crate::operations::UserHomes;
use crate::run_report::quotient;
use larder::{CacheKind, Volume};
use larder_cache::table::Counts;
use larder_cache::table::histogram::Report;
use serde::Serialize;

/// The minimum duration of a turn of the fastest kernel, in seconds. In shorter turns, the processors' caches would
/// mostly be filled again.
const TURN_S: f64 = 0.25;

/// The planned processor time of a run, as a multiple of its minimum. The difference is a margin for passes that are
/// faster than those that determined the plan.
const MARGIN: f64 = 1.05;

/// The share of a run that is executed on each volume to correct the plan, and how often. Until the caches are full,
/// passes become slower.
const WARMING_SHARE: f64 = 0.3;
const WARMINGS: u32 = 2;

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
        quotient(links, self.runs.scripts * self.runs.elapsed_s.len() as u64)
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

/// The number of buffers that remain in Histograms 2 and 4 of the document.
const BUFFERS_AFTER: u64 = 2_700;

/// The kind of a pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// The last pass of all runs, which examines the chains.
    Last,
    Other,
}

impl Image {
    /// Measures all kernels of a table under all of its loads. Rounds that `state` contains are not measured
    /// again.
    pub(super) fn measure(
        &self,
        table: &PublishedTable,
        size: &Size,
        state: &mut State,
        run_done: &mut dyn FnMut(),
    ) -> Result<Vec<Row>, Error> {
        let mut rows: Vec<Row> = table.kernels.iter().map(Row::new).collect();
        for &users in table.loads {
            let users = size.users(users);
            self.load(table, users, size, state, run_done)?;
            for (at, row) in rows.iter_mut().enumerate() {
                let rounds = state.rounds(table.number, users);
                let runs = rounds.filter_map(|round| round.runs.get(at));
                row.loads.push(Load::of(table, users, runs));
            }
        }
        Ok(rows)
    }

    /// Measures the rounds of a load that `state` does not contain.
    fn load(
        &self,
        table: &PublishedTable,
        users: u32,
        size: &Size,
        state: &mut State,
        run_done: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        let rounds = size.runs(table);
        let mut finished = state.rounds(table.number, users);
        let plan = finished.next().map(|round| round.plan);
        let stored = usize::from(plan.is_some()) + finished.count();
        if stored >= rounds as usize {
            return Ok(());
        }
        let memory_bytes = size.memory_bytes(table.machine);
        let load = Workload {
            image: self,
            users,
            machine: table.machine,
            programs: size.programs(table.machine),
            buffers_after: (table.cache == Some(CacheKind::Buffer))
                .then(|| BUFFERS_AFTER / u64::from(size.divisor)),
        };
        let volumes = || -> Result<Vec<Volume>, Error> {
            let volumes = (table.kernels.iter()).map(|kernel| {
                let volume = self.open(kernel, memory_bytes)?;
                load.pass(&volume, Pass::Other)?;
                Ok(volume)
            });
            volumes.collect()
        };
        let plan = match plan {
            Some(plan) => plan,
            None => load.plan(&volumes()?, size)?,
        };
        for number in stored + 1..=rounds as usize {
            let is_last = number == rounds as usize;
            let runs = load.round(&volumes()?, plan, is_last, run_done)?;
            let finished = FinishedRound {
                table: table.number,
                users,
                plan,
                runs,
            };
            state.add(finished).map_err(Error::State)?;
        }
        Ok(())
    }
}

/// The work of a pass.
struct Workload<'i> {
    image: &'i Image,
    users: u32,
    machine: Machine,
    /// Number of programs that the users run.
    programs: u32,
    /// The number of buffers that remain after the last pass, if most of them are displaced.
    buffers_after: Option<u64>,
}

impl Workload<'_> {
    /// Returns a plan with which a run of the fastest kernel takes its minimum processor time. Times rounds on all
    /// volumes, because passes take longer when the kernels displace each other's memory from the processors' caches.
    fn plan(&self, volumes: &[Volume], size: &Size) -> Result<Plan, Error> {
        let mut plan = Plan {
            turns: 1,
            turn_passes: 1,
        };
        if size.run_s == 0 {
            return Ok(plan);
        }
        let mut fastest = self.fastest(volumes, plan)?;
        while fastest.elapsed_s < TURN_S {
            plan.turn_passes *= 2;
            fastest = self.fastest(volumes, plan)?;
        }
        let planned_s = MARGIN * f64::from(size.run_s);
        let turns =
            |plan: Plan, run: &KernelRun| planned_s * f64::from(plan.turns) / run.processor_s;
        for _ in 0..WARMINGS {
            plan.turns = whole(WARMING_SHARE * turns(plan, &fastest));
            fastest = self.fastest(volumes, plan)?;
        }
        plan.turns = whole(turns(plan, &fastest));
        Ok(plan)
    }

    /// Executes a round, and returns the run with the least processor time.
    fn fastest(&self, volumes: &[Volume], plan: Plan) -> Result<KernelRun, Error> {
        let runs = self.round(volumes, plan, false, &mut || ())?;
        let fastest = runs
            .into_iter()
            .min_by(|a, b| a.processor_s.total_cmp(&b.processor_s));
        Ok(fastest.expect("each table has kernels"))
    }

    /// Executes one run on each volume. `is_last` is true for the last round of the load.
    fn round(
        &self,
        volumes: &[Volume],
        plan: Plan,
        is_last: bool,
        run_done: &mut dyn FnMut(),
    ) -> Result<Vec<KernelRun>, Error> {
        let mut runs: Vec<Option<KernelRun>> = volumes.iter().map(|_| None).collect();
        for turn in 1..=plan.turns {
            let is_last_turn = turn == plan.turns;
            let mut order: Vec<_> = volumes.iter().zip(&mut runs).collect();
            order.rotate_left(turn as usize % volumes.len());
            for (volume, run) in order {
                for number in 1..=plan.turn_passes {
                    let is_last_pass = is_last && is_last_turn && number == plan.turn_passes;
                    let kind = if is_last_pass {
                        Pass::Last
                    } else {
                        Pass::Other
                    };
                    let pass = self.pass(volume, kind)?;
                    match run {
                        None => *run = Some(pass),
                        Some(run) => run.add(pass),
                    }
                }
                if is_last_turn {
                    run_done();
                }
            }
        }
        Ok(runs.into_iter().flatten().collect())
    }

    /// Executes one pass.
    fn pass(&self, volume: &Volume, kind: Pass) -> Result<KernelRun, Error> {
        let image = self.image;
        let homes = UserHomes::new(volume, &image.operations, self.users, image.seed)?;
        volume.sync()?;
        let before = volume.counts();
        let (spent, ends) = run_concurrently(self.users, |user| {
            let replayer = homes.user(user);
            move || -> Result<(), Error> {
                replayer.replay(volume)?;
                image.programs.run(volume, user, self.programs)?;
                if self.machine.has_spool {
                    image.spool.list(volume, user)?;
                }
                if self.machine.has_tree {
                    image.tree.examine(volume, user, self.users)?;
                }
                Ok(())
            }
        });
        let stats = volume.counts();
        ends.into_iter().collect::<Result<(), _>>()?;
        let reports = || CacheKind::ALL.map(|cache| volume.histogram(cache));
        let full = (kind == Pass::Last).then(reports);
        homes.remove(volume)?;
        if let (Pass::Last, Some(buffers)) = (kind, self.buffers_after) {
            image.programs.displace_buffers(volume, buffers)?;
        }
        let mut caches = CacheKind::ALL.map(|cache| CacheRun {
            counts: stats.cache(cache).searches() - before.cache(cache).searches(),
            chains: None,
        });
        if let Some(full) = full {
            for ((cache, full), after) in caches.iter_mut().zip(full).zip(reports()) {
                cache.chains = Some(Chains { full, after });
            }
        }
        Ok(KernelRun {
            scripts: self.users.into(),
            elapsed_s: spent.wall.as_secs_f64(),
            processor_s: spent.processor.as_secs_f64(),
            device_reads: stats.device.reads - before.device.reads,
            caches: caches.into(),
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
    /// Returns the results of a kernel's runs.
    fn of<'r>(
        table: &PublishedTable,
        users: u32,
        runs: impl Iterator<Item = &'r KernelRun> + Clone,
    ) -> Self {
        let caches = (0..CacheKind::ALL.len()).filter_map(|at| {
            let of_runs = runs.clone().filter_map(|run| run.caches.get(at));
            let last = of_runs.clone().last()?.chains.as_ref()?;
            let counts = of_runs.fold(Counts::default(), |sum, cache| sum + cache.counts);
            Some(CacheFigures::of(last, counts))
        });
        Self {
            caches: caches.collect(),
            device_reads: runs.clone().map(|run| run.device_reads).sum(),
            runs: Runs {
                users,
                scripts: runs.clone().next().map_or(0, |run| run.scripts),
                elapsed_s: runs.clone().map(|run| run.elapsed_s).collect(),
                processor_s: runs.map(|run| run.processor_s).collect(),
                average: table.average,
            },
        }
    }
}

impl CacheFigures {
    /// Returns the figures with the `counts` of all runs, and the chains at the end of the `last` run.
    fn of(last: &Chains, counts: Counts) -> Self {
        Self {
            cache: last.full.cache,
            lookups: counts.lookups(),
            hits: counts.hits,
            links: counts.links(),
            links_on_misses: counts.links_on_misses,
            longest_chain: last.full.histogram.longest_chain(),
            long_share: long_share(&last.full),
            full: last.full.clone(),
            after: last.after.clone(),
        }
    }
}

/// Returns `number` rounded up, at least 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of passes, at most some thousand"
)]
fn whole(number: f64) -> u32 {
    number.ceil().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::super::kernels::TABLES;
    use super::*;
    use crate::operations::Operations;
    use larder_testkit::report_skipped;

    /// With one user, counts do not depend on the order in which threads run.
    #[test]
    fn each_round_begins_with_the_same_caches() {
        let size = Size::quick(2000);
        let image = match Image::new(Operations::sdm(), 1, &size) {
            Ok(image) => image,
            Err(Error::Mke2fs(missing)) => return report_skipped(&missing),
            Err(error) => panic!("{error}"),
        };
        let dir = tempfile::tempdir().unwrap();
        let (mut state, _) = State::open(size, &dir.path().join("state")).unwrap();
        let table = &TABLES[0];
        let published = table.loads[0];
        assert_eq!(size.users(published), 1);
        image.load(table, 1, &size, &mut state, &mut || ()).unwrap();
        let counts = |round: &FinishedRound| -> Vec<Counts> {
            let caches = round.runs.iter().flat_map(|run| &run.caches);
            caches.map(|cache| cache.counts).collect()
        };
        let mut rounds = state.rounds(table.number, 1).map(counts);
        let first = rounds.next().unwrap();
        assert_eq!(rounds.next(), Some(first));
    }
}
