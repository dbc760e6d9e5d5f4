//! Measures recorded scripts on volumes, one for each kernel.
//!
//! # Model
//! A kernel is represented by a volume with the kernel's hash tables. In a *pass*, each user has a new home and
//! executes its script there, together with all other users. In addition, it runs [programs](super::programs), lists
//! its [spool](super::spool) and examines a [tree](super::tree) of files, depending on the table.
//!
//! All kernels of a table execute their passes at the same time, in turns: a pass is divided into parts, and in a turn,
//! all users of one kernel execute one part. A turn takes a few hundredths of a second, because the speed of a shared
//! machine changes within tenths of a second. So all kernels meet the same speeds. Time is measured only within turns.
//! The [threads](threads_of) that execute the users' parts wait between turns, so that a turn does not start them.
//!
//! The order of the kernels is drawn anew for each part. When a turn begins, the processors' caches contain memory of
//! the kernel before. With a fixed order, this would be the same other kernel in all rounds, and the intervals would
//! not contain the effect.
//!
//! A *round* consists of as many passes as are planned, the same number for all kernels. A *run* consists of several
//! consecutive rounds. The rounds of two kernels are compared in pairs. The numbers of passes and rounds are planned
//! before the first round. If a run of a load is too short, all of its runs get another round, until each run of each
//! kernel has the minimum processor time. So all runs of a load have equally many rounds, with equally many passes.
//!
//! Each round has new volumes, on new views of the same image. If volumes were kept, names of removed homes would
//! collect in the dentry caches, and each round would walk longer chains and have less memory for pages than the round
//! before. New volumes also have other addresses in memory, which affect their speed. They are opened in random order.
//! A pass that is not measured fills the caches of the new volumes.
//!
//! Finished rounds are kept in the [state](super::state), so that an interrupted reproduction can resume.
//!
//! No thread writes back in the background, because it would disturb the kernel that runs at that time. The
//! homes are synced before the users start. Homes are created and removed on as many volumes at a time as there are
//! processors; this is not measured.

use super::error::Error;
use super::image::Image;
use super::kernel_run::{CacheRun, Chains, KernelRun};
use super::kernels::{Kernel, Machine, PublishedTable};
use super::plan::Plan;
use super::runs::{RoundTimes, Runs};
use super::size::Size;
use super::state::{FinishedRound, State};
use super::turn::threads_of;
use crate::concurrent::{Spent, with_threads};
use crate::operations::{Part, User, UserHomes};
use crate::run_report::{as_f64, quotient};
use crate::workload::chance::{generator, mix};
use larder::{CacheKind, Stats, Volume};
use larder_cache::table::Counts;
use larder_cache::table::histogram::Report;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use serde::Serialize;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The minimum duration of a turn of the fastest kernel, in seconds, unless a whole pass is shorter. Shorter turns
/// would mostly fill the processors' caches again.
const TURN_S: f64 = 0.02;

/// The planned processor time of a run, as a multiple of its minimum. The difference is a margin for passes that are
/// faster than those that determined the plan, so that runs seldom need additional rounds.
const MARGIN: f64 = 1.2;

/// The share of a round that is executed on each volume, [`WARMINGS`] times, to correct the plan: passes become slower
/// until the caches are full.
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
    /// planned round.
    pub caches: Vec<CacheFigures>,
    /// Number of device reads in the runs.
    pub device_reads: u64,
    /// Number of turns in the runs.
    pub turns: u64,
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
    /// Length of the longest chain at the end of the last planned round.
    pub longest_chain: u64,
    /// The share of objects in chains of more than 15 objects, at the end of the last planned round.
    pub long_share: f64,
    /// The chain lengths at the end of the last planned round.
    pub full: Report,
    /// The chain lengths after the homes were removed.
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

    /// Returns the mean duration of a turn in seconds.
    pub fn turn_s(&self) -> f64 {
        self.runs.total_s() / as_f64(self.turns)
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
    /// The last pass of all planned rounds, which examines the chains.
    Last,
    Other,
}

impl Image {
    /// Measures all kernels of a table under all of its loads. Rounds that `state` contains are not measured
    /// again. Calls `round_done` after each round.
    pub(super) fn measure(
        &self,
        table: &PublishedTable,
        size: &Size,
        state: &mut State,
        round_done: &mut dyn FnMut(&State),
    ) -> Result<Vec<Row>, Error> {
        let mut rows: Vec<Row> = table.kernels.iter().map(Row::new).collect();
        for &users in table.loads {
            let users = size.users(users);
            self.load(table, users, size, state, round_done)?;
            for (at, row) in rows.iter_mut().enumerate() {
                let rounds = state.rounds(table.number, users);
                let turns = rounds.clone().map(|round| round.plan.turns()).sum();
                let rounds = rounds.filter_map(|round| round.runs.get(at));
                row.loads.push(Load::of(table, users, size, turns, rounds));
            }
        }
        Ok(rows)
    }

    /// Measures the rounds of a load that `state` does not contain: first those that are planned, and then more while a
    /// run is too short.
    fn load(
        &self,
        table: &PublishedTable,
        users: u32,
        size: &Size,
        state: &mut State,
        round_done: &mut dyn FnMut(&State),
    ) -> Result<(), Error> {
        let load = Workload {
            image: self,
            users,
            machine: table.machine,
            programs: size.programs(table.machine),
            buffers_after: (table.cache == Some(CacheKind::Buffer))
                .then(|| BUFFERS_AFTER / u64::from(size.divisor)),
        };
        let least_s = f64::from(size.run_s);
        loop {
            let finished = state.rounds(table.number, users).count();
            if finished >= state.wanted_rounds(table, users)
                && shortest_run_s(table, users, size, state) >= least_s
            {
                return Ok(());
            }
            let number = finished + 1;
            let mut random = round_random(size.seed, table.number, users, number);
            let plan = if let Some(round) = state.rounds(table.number, users).next() {
                round.plan
            } else {
                // The number of passes of a plan depends on time, so it has its own random numbers.
                let mut random = round_random(size.seed, table.number, users, 0);
                let (_, volumes) = self.volumes(table, size, &load, &mut random)?;
                let round_s = MARGIN * least_s / f64::from(size.run_rounds(table));
                load.plan(&volumes, round_s, &mut random)?
            };
            let start = Instant::now();
            let (order, volumes) = self.volumes(table, size, &load, &mut random)?;
            let is_last = number == size.rounds(table);
            let runs = load.round(&volumes, plan, is_last, &mut random)?;
            let mut runs: Vec<(usize, KernelRun)> = order.into_iter().zip(runs).collect();
            runs.sort_by_key(|(kernel, _)| *kernel);
            let finished = FinishedRound {
                table: table.number,
                users,
                plan,
                took_s: start.elapsed().as_secs_f64(),
                runs: runs.into_iter().map(|(_, run)| run).collect(),
            };
            state.add(finished).map_err(Error::State)?;
            round_done(state);
        }
    }

    /// Opens a volume for each kernel of a table, in random order, and fills its caches. Returns the index of each
    /// kernel, and the volumes, in this order.
    fn volumes(
        &self,
        table: &PublishedTable,
        size: &Size,
        load: &Workload,
        random: &mut Pcg64Mcg,
    ) -> Result<(Vec<usize>, Vec<Volume>), Error> {
        let memory_bytes = size.memory_bytes(table.machine);
        let mut order: Vec<usize> = (0..table.kernels.len()).collect();
        order.shuffle(random);
        let volumes = order
            .iter()
            .map(|kernel| self.open(&table.kernels[*kernel], memory_bytes));
        let volumes: Vec<Volume> = volumes.collect::<Result<_, _>>()?;
        load.pass(&volumes, 1, Pass::Other, random)?;
        Ok((order, volumes))
    }
}

/// Returns the random numbers of a round, which do not depend on interruptions.
fn round_random(seed: u64, table: u32, users: u32, number: usize) -> Pcg64Mcg {
    let load = mix(u64::from(table) << 32 | u64::from(users));
    generator(seed, mix(load ^ number as u64))
}

/// Returns the processor time of the shortest run of any kernel under a load, in seconds.
fn shortest_run_s(table: &PublishedTable, users: u32, size: &Size, state: &State) -> f64 {
    let runs = (0..table.kernels.len()).flat_map(|at| {
        let rounds = state.rounds(table.number, users);
        let rounds = rounds.filter_map(|round| round.runs.get(at));
        runs_of(table, users, size, rounds).processor_s
    });
    runs.fold(f64::INFINITY, f64::min)
}

/// Returns the runs of a kernel, given its rounds.
fn runs_of<'r>(
    table: &PublishedTable,
    users: u32,
    size: &Size,
    rounds: impl Iterator<Item = &'r KernelRun>,
) -> Runs {
    let times = rounds.map(|round| RoundTimes {
        scripts: round.scripts,
        elapsed_s: round.elapsed_s,
        processor_s: round.processor_s,
    });
    let times: Vec<_> = times.collect();
    let run_rounds = times.len() / size.runs(table).max(1) as usize;
    Runs::of(users, table.average, run_rounds, &times)
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
    /// Returns a plan with which a round of the fastest kernel takes about `round_s` seconds of processor time, or
    /// more. Times rounds on all volumes, because passes take longer when the kernels displace each other's memory from
    /// the processors' caches.
    fn plan(&self, volumes: &[Volume], round_s: f64, random: &mut Pcg64Mcg) -> Result<Plan, Error> {
        let mut plan = Plan {
            passes: 1,
            parts: 1,
        };
        if round_s <= 0.0 {
            return Ok(plan);
        }
        let mut fastest = self.fastest(volumes, plan, random)?;
        plan.parts = whole((fastest.elapsed_s / TURN_S).floor());
        let passes =
            |plan: Plan, round: &KernelRun| round_s * f64::from(plan.passes) / round.processor_s;
        for _ in 0..WARMINGS {
            plan.passes = whole(WARMING_SHARE * passes(plan, &fastest));
            fastest = self.fastest(volumes, plan, random)?;
        }
        plan.passes = whole(passes(plan, &fastest));
        Ok(plan)
    }

    /// Executes a round, and returns the share of the kernel with the least processor time.
    fn fastest(
        &self,
        volumes: &[Volume],
        plan: Plan,
        random: &mut Pcg64Mcg,
    ) -> Result<KernelRun, Error> {
        let runs = self.round(volumes, plan, false, random)?;
        let fastest = runs
            .into_iter()
            .min_by(|a, b| a.processor_s.total_cmp(&b.processor_s));
        Ok(fastest.expect("each table has kernels"))
    }

    /// Executes a round on all volumes, and returns the share of each. `is_last` is true for the last planned round of
    /// the load.
    fn round(
        &self,
        volumes: &[Volume],
        plan: Plan,
        is_last: bool,
        random: &mut Pcg64Mcg,
    ) -> Result<Vec<KernelRun>, Error> {
        let mut runs: Vec<Option<KernelRun>> = volumes.iter().map(|_| None).collect();
        for number in 1..=plan.passes {
            let kind = if is_last && number == plan.passes {
                Pass::Last
            } else {
                Pass::Other
            };
            let passes = self.pass(volumes, plan.parts, kind, random)?;
            for (run, pass) in runs.iter_mut().zip(passes) {
                match run {
                    None => *run = Some(pass),
                    Some(run) => run.add(pass),
                }
            }
        }
        Ok(runs.into_iter().flatten().collect())
    }

    /// Executes a pass on each volume, in turns.
    fn pass(
        &self,
        volumes: &[Volume],
        parts: u32,
        kind: Pass,
        random: &mut Pcg64Mcg,
    ) -> Result<Vec<KernelRun>, Error> {
        let homes = volumes.par_iter().map(|volume| self.homes(volume));
        let homes: Vec<UserHomes> = homes.collect::<Result<_, _>>()?;
        let running: Vec<RunningPass> = volumes
            .iter()
            .zip(&homes)
            .map(|(volume, homes)| RunningPass::new(self, volume, homes))
            .collect();
        let spent = self.turns(&running, parts, random)?;
        let runs = running.into_iter().zip(spent);
        let runs = runs.map(|(pass, spent)| pass.end(spent));
        let mut runs: Vec<KernelRun> = runs.collect::<Result<_, _>>()?;
        let full: Vec<Histograms> = match kind {
            Pass::Last => volumes.iter().map(histograms).collect(),
            Pass::Other => Vec::new(),
        };
        volumes
            .par_iter()
            .zip(homes)
            .try_for_each(|(volume, homes)| homes.remove(volume))?;
        for ((volume, full), run) in volumes.iter().zip(full).zip(&mut runs) {
            self.add_chains(volume, full, run)?;
        }
        Ok(runs)
    }

    /// Executes all parts of a pass on each volume. For each part, all volumes have a turn, in random order. Returns
    /// the time of the turns of each volume.
    fn turns(
        &self,
        running: &[RunningPass],
        parts: u32,
        random: &mut Pcg64Mcg,
    ) -> Result<Vec<Spent>, Error> {
        let mut spent = vec![Spent::default(); running.len()];
        let mut order: Vec<usize> = (0..running.len()).collect();
        let threads = threads_of(self.users);
        let execute = |thread, (at, part): (usize, Part)| -> Result<(), Error> {
            let mut users = (thread..self.users).step_by(threads as usize);
            users.try_for_each(|user| running[at].execute(user, part))
        };
        with_threads(threads, execute, |turn| -> Result<(), Error> {
            for part in Part::all(parts) {
                order.shuffle(random);
                for &at in &order {
                    let (of_turn, ends) = turn((at, part));
                    spent[at] += of_turn;
                    ends.into_iter().collect::<Result<(), Error>>()?;
                }
            }
            Ok(())
        })?;
        Ok(spent)
    }

    /// Creates the homes of all users.
    fn homes<'h>(&'h self, volume: &Volume) -> Result<UserHomes<'h>, Error> {
        let homes = UserHomes::new(volume, &self.image.operations, self.users, self.image.seed)?;
        volume.sync()?;
        Ok(homes)
    }

    /// Adds chains to `run`: `full`, which are those at its end, and those after the homes were removed and, in
    /// Table 3, most buffers were displaced.
    fn add_chains(
        &self,
        volume: &Volume,
        full: Histograms,
        run: &mut KernelRun,
    ) -> Result<(), Error> {
        if let Some(buffers) = self.buffers_after {
            self.image.programs.displace_buffers(volume, buffers)?;
        }
        for ((cache, full), after) in run.caches.iter_mut().zip(full).zip(histograms(volume)) {
            cache.chains = Some(Chains { full, after });
        }
        Ok(())
    }
}

/// A pass on one volume, of which some parts have been executed.
struct RunningPass<'w> {
    workload: &'w Workload<'w>,
    volume: &'w Volume,
    users: Vec<Mutex<User<'w>>>,
    /// The counts before the first part.
    before: Stats,
}

impl<'w> RunningPass<'w> {
    fn new(workload: &'w Workload<'w>, volume: &'w Volume, homes: &'w UserHomes<'w>) -> Self {
        let users = (0..workload.users).map(|user| Mutex::new(homes.user(user)));
        Self {
            workload,
            volume,
            users: users.collect(),
            before: volume.counts(),
        }
    }

    /// Executes a part of the work of a user.
    fn execute(&self, number: u32, part: Part) -> Result<(), Error> {
        let (workload, volume) = (self.workload, self.volume);
        let (image, machine) = (workload.image, workload.machine);
        let user = &self.users[number as usize];
        let mut user = user.lock().unwrap_or_else(PoisonError::into_inner);
        user.replay_part(volume, part)?;
        image
            .programs
            .run(volume, number, workload.programs, part)?;
        if machine.has_spool {
            image.spool.list(volume, number, part)?;
        }
        if machine.has_tree {
            image.tree.examine(volume, number, workload.users, part)?;
        }
        Ok(())
    }

    /// Closes the files of all users, and returns the results of the pass, without chains. `spent` is the time of its
    /// turns.
    fn end(self, spent: Spent) -> Result<KernelRun, Error> {
        let volume = self.volume;
        for user in self.users {
            let user = user.into_inner().unwrap_or_else(PoisonError::into_inner);
            user.close(volume)?;
        }
        let counts = volume.counts();
        let caches = CacheKind::ALL.map(|cache| CacheRun {
            counts: counts.cache(cache).searches() - self.before.cache(cache).searches(),
            chains: None,
        });
        Ok(KernelRun {
            scripts: self.workload.users.into(),
            elapsed_s: spent.wall.as_secs_f64(),
            processor_s: spent.processor.as_secs_f64(),
            device_reads: counts.device.reads - self.before.device.reads,
            caches: caches.into(),
        })
    }
}

/// The chains of each cache, in the order of [`CacheKind::ALL`].
type Histograms = [Report; CacheKind::ALL.len()];

fn histograms(volume: &Volume) -> Histograms {
    CacheKind::ALL.map(|cache| volume.histogram(cache))
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
    /// Returns the results of a kernel's rounds, which have `turns` turns in total.
    fn of<'r>(
        table: &PublishedTable,
        users: u32,
        size: &Size,
        turns: u64,
        rounds: impl Iterator<Item = &'r KernelRun> + Clone,
    ) -> Self {
        let caches = (0..CacheKind::ALL.len()).filter_map(|at| {
            let of_rounds = rounds.clone().filter_map(|round| round.caches.get(at));
            let chains = of_rounds.clone().find_map(|cache| cache.chains.as_ref())?;
            let counts = of_rounds.fold(Counts::default(), |sum, cache| sum + cache.counts);
            Some(CacheFigures::of(chains, counts))
        });
        Self {
            caches: caches.collect(),
            device_reads: rounds.clone().map(|round| round.device_reads).sum(),
            runs: runs_of(table, users, size, rounds),
            turns,
        }
    }
}

impl CacheFigures {
    /// Returns the figures with the `counts` of all runs, and the chains at the end of the last planned round.
    pub(super) fn of(chains: &Chains, counts: Counts) -> Self {
        Self {
            cache: chains.full.cache,
            lookups: counts.lookups(),
            hits: counts.hits,
            links: counts.links(),
            links_on_misses: counts.links_on_misses,
            longest_chain: chains.full.histogram.longest_chain(),
            long_share: long_share(&chains.full),
            full: chains.full.clone(),
            after: chains.after.clone(),
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

    /// With one user, counts do not depend on the order in which threads run. This user and its spool fit into memory.
    /// Otherwise, counts would depend on the numbers of the threads: a thread takes slots from its own free list, and
    /// the clock evicts in the order of slots.
    #[test]
    fn each_round_begins_with_the_same_caches() {
        let table = &TABLES[2];
        let published = table.loads[0];
        let size = Size {
            divisor: published,
            ..Size::quick(2000)
        };
        assert_eq!(
            (size.users(published), size.programs(table.machine)),
            (1, 0)
        );
        let image = match Image::new(Operations::sdm(), 1, &size) {
            Ok(image) => image,
            Err(Error::Mke2fs(missing)) => return report_skipped(&missing),
            Err(error) => panic!("{error}"),
        };
        let dir = tempfile::tempdir().unwrap();
        let (mut state, _) = State::open(size, &dir.path().join("state")).unwrap();
        image
            .load(table, 1, &size, &mut state, &mut |_| ())
            .unwrap();
        let counts = |round: &FinishedRound| -> Vec<Counts> {
            let caches = round.runs.iter().flat_map(|run| &run.caches);
            caches.map(|cache| cache.counts).collect()
        };
        let mut rounds = state.rounds(table.number, 1).map(counts);
        let first = rounds.next().unwrap();
        assert_eq!(rounds.next(), Some(first));
    }
}
