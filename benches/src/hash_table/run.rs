//! A run: the cases one after the other, with several rounds of each. In each round, the sides take
//! turns, in an order that rotates from round to round.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use foldhash::fast::FixedState;
use larder_cache::hash::HashKey;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::hash_table::keys::{Keys, Workload, value};
use crate::hash_table::maps::{
    Copying, Dashmap, Guarded, Hashbrown, LarderTable, Papaya, Pinning, Prefetching, SccIndex,
    SccMap, Session, Tally, Uncounted, larder_table,
};
use crate::hash_table::plan::Plan;
use crate::hash_table::recorded;
use crate::hash_table::side::Side;
use crate::measure::as_f64;

/// The maximum number of threads of a case.
const THREADS_MAX: usize = 2;

/// The number of lookups in a batch, for which one guard is held.
const BATCH: usize = 1000;

/// One lookup in this many first removes its key and inserts it again.
const CHURN_EVERY: usize = 50;

/// A case to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The keys.
    pub workload: Workload,
    /// The number of concurrent threads.
    pub threads: usize,
    /// Whether one lookup in fifty first removes its key and inserts it again.
    pub churn: bool,
}

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The case that was measured.
    #[serde(flatten)]
    pub case: Case,
    /// The side.
    pub side: Side,
    /// The lookups per second of processor time, in millions: the sum of the rates of the threads.
    pub million_a_second: f64,
    /// The wall time of the slowest thread.
    pub wall_seconds: f64,
}

impl Case {
    /// Returns all cases.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let of = |workload| {
            let cases = [(1, false), (2, false), (1, true), (2, true)];
            cases.map(|(threads, churn)| Self {
                workload,
                threads,
                churn,
            })
        };
        Workload::ALL.into_iter().flat_map(of).collect()
    }

    /// Returns the name as it is printed.
    #[must_use]
    pub fn name(self) -> String {
        let mix = if self.churn { "reads-98" } else { "hits" };
        format!("{}-{mix}-threads-{}", self.workload.name(), self.threads)
    }

    /// Returns whether `side` supports the case.
    #[must_use]
    pub fn allows(self, side: Side) -> bool {
        match side {
            Side::Hashbrown => self.threads == 1,
            Side::LarderAhead => !self.churn,
            _ => true,
        }
    }
}

/// All sides, with the keys of one workload.
#[derive(Debug)]
pub struct Maps {
    keys: Keys,
    larder: LarderTable,
    dashmap: Dashmap,
    papaya: Papaya,
    scc_index: SccIndex,
    scc_map: SccMap,
    hashbrown: Hashbrown,
}

impl Maps {
    /// Creates all sides, filled in the same order. Recorded keys are read from `trace`.
    pub fn new(workload: Workload, plan: &Plan, trace: Option<&Path>) -> Result<Self> {
        let keys = Keys::new(workload, plan, THREADS_MAX, trace)?;
        let room = keys.objects.len();
        let hash = || FixedState::with_seed(plan.seed);
        let mut maps = Self {
            keys,
            larder: larder_table(u32::try_from(room)?).context("cannot allocate the table")?,
            dashmap: Dashmap::with_capacity_and_hasher(room, hash()),
            papaya: Papaya::with_capacity_and_hasher(room, hash()),
            scc_index: SccIndex::with_capacity_and_hasher(room, hash()),
            scc_map: SccMap::with_capacity_and_hasher(room, hash()),
            hashbrown: Hashbrown::with_capacity_and_hasher(room, hash()),
        };
        let keys = &maps.keys.objects;
        fill(Copying(&maps.larder), keys);
        fill(&maps.dashmap, keys);
        fill(maps.papaya.pin(), keys);
        fill(Guarded(&maps.scc_index, scc::Guard::new()), keys);
        fill(&maps.scc_map, keys);
        fill(&mut maps.hashbrown, keys);
        Ok(maps)
    }

    /// Measures one side once.
    pub fn measure(&mut self, case: Case, side: Side) -> Result<Sample> {
        let work = Work {
            keys: &self.keys,
            case,
        };
        let outcome = match side {
            Side::Larder => work.on_threads(|| Copying(&self.larder)),
            Side::LarderAhead => work.on_threads(|| Prefetching(&self.larder)),
            Side::LarderPin => work.on_threads(|| Pinning(&self.larder)),
            Side::LarderUncounted => work.on_threads(|| Uncounted(&self.larder)),
            Side::Dashmap => work.on_threads(|| &self.dashmap),
            Side::Papaya => work.on_threads(|| self.papaya.pin()),
            Side::SccIndex => work.on_threads(|| Guarded(&self.scc_index, scc::Guard::new())),
            Side::SccMap => work.on_threads(|| &self.scc_map),
            Side::Hashbrown => vec![work.alone(&mut self.hashbrown)],
        };
        let lookups = self.keys.of_thread(0, THREADS_MAX).len();
        for (thread, outcome) in outcome.iter().enumerate() {
            let expected = work.expected(thread);
            let is_right = case.churn || outcome.tally == expected;
            ensure!(
                is_right,
                "found {:?} instead of {expected:?}",
                outcome.tally
            );
        }
        let rate = |seconds: f64| as_f64(lookups as u64) / seconds / 1e6;
        Ok(Sample {
            case,
            side,
            million_a_second: outcome.iter().map(|one| rate(one.processor_seconds)).sum(),
            wall_seconds: outcome.iter().map(|one| one.seconds).fold(0.0, f64::max),
        })
    }
}

fn fill(mut map: impl Session, keys: &[HashKey]) {
    for key in keys {
        map.insert(*key, value(*key));
    }
}

/// The results of one thread.
struct Outcome {
    tally: Tally,
    seconds: f64,
    processor_seconds: f64,
}

/// The work of the threads.
struct Work<'k> {
    keys: &'k Keys,
    case: Case,
}

impl Work<'_> {
    /// Runs each thread's share, with its own session.
    fn on_threads<S: Session>(&self, session: impl Fn() -> S + Sync) -> Vec<Outcome> {
        let barrier = Barrier::new(self.case.threads);
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..self.case.threads)
                .map(|thread| {
                    let (barrier, session) = (&barrier, &session);
                    scope.spawn(move || {
                        bind(thread);
                        barrier.wait();
                        self.run(thread, session())
                    })
                })
                .collect();
            let join = |handle: std::thread::ScopedJoinHandle<_>| handle.join();
            let joined: Result<Vec<_>, _> = handles.into_iter().map(join).collect();
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs the first thread's share in one thread.
    fn alone<S: Session + Send>(&self, session: S) -> Outcome {
        std::thread::scope(|scope| {
            let handle = scope.spawn(move || {
                bind(0);
                self.run(0, session)
            });
            let joined = handle.join();
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn run(&self, thread: usize, mut session: impl Session) -> Outcome {
        let keys = self.keys.of_thread(thread, THREADS_MAX);
        let (start, processor_start) = (Instant::now(), processor_seconds());
        let mut tally = Tally::default();
        for batch in keys.chunks(BATCH) {
            session.renew();
            let found = if self.case.churn {
                churn(&mut session, batch)
            } else {
                session.get_all(batch)
            };
            tally.hits += found.hits;
            tally.sum += found.sum;
        }
        Outcome {
            tally,
            seconds: start.elapsed().as_secs_f64(),
            processor_seconds: processor_seconds() - processor_start,
        }
    }

    /// Returns the expected results of a thread if no keys are removed.
    fn expected(&self, thread: usize) -> Tally {
        let mut tally = Tally::default();
        for key in self.keys.of_thread(thread, THREADS_MAX) {
            tally.add(Some(value(*key)));
        }
        tally
    }
}

/// Looks up all of `keys`. Removes one key in [`CHURN_EVERY`] before its lookup, and inserts it again.
#[inline]
fn churn(session: &mut impl Session, keys: &[HashKey]) -> Tally {
    let mut tally = Tally::default();
    for some in keys.chunks(CHURN_EVERY) {
        if let Some(key) = some.first() {
            session.remove(*key);
            session.insert(*key, value(*key));
        }
        let found = session.get_all(some);
        tally.hits += found.hits;
        tally.sum += found.sum;
    }
    tally
}

/// Binds the calling thread to processor number `thread`, if it is allowed to run there.
fn bind(thread: usize) {
    let mut set = CpuSet::new();
    set.set(thread);
    // If this fails, the thread is not bound.
    let _ = sched_setaffinity(None, &set);
}

/// Returns the processor time of the calling thread.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The measurements of a run.
#[derive(Debug, Default)]
pub struct Measured {
    /// Every measurement, in order.
    pub samples: Vec<Sample>,
    /// The shapes of Larder's tables.
    pub shapes: Vec<Shape>,
}

/// The shape of Larder's table with the keys of a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// The keys.
    pub workload: Workload,
    /// The number of buckets.
    pub buckets: u32,
    /// The mean number of links per hit, with the lookups of the workload.
    pub links: f64,
    /// The mean number of links per hit to expect if the keys were distributed over the buckets at random.
    pub links_of_chance: f64,
}

impl Shape {
    /// Determines the shape: performs all lookups of the workload, and counts the links.
    fn of(workload: Workload, maps: &Maps) -> Self {
        let table = &maps.larder;
        let before = table.counts();
        Copying(table).get_all(&maps.keys.lookups);
        let after = table.counts();
        let links = after.links_on_hits - before.links_on_hits;
        let buckets = table.bucket_count();
        Self {
            workload,
            buckets,
            links: as_f64(links) / as_f64(after.hits - before.hits),
            links_of_chance: 1.0 + as_f64(table.objects()) / f64::from(buckets) / 2.0,
        }
    }
}

/// The parameters of a run.
#[derive(Debug)]
pub struct Run<'r> {
    /// The sizes.
    pub plan: &'r Plan,
    /// The cases.
    pub cases: &'r [Case],
    /// The sides to compare.
    pub sides: &'r [Side],
    /// The directory in which a volume is recorded.
    pub folder: &'r Path,
    /// The run ends early when this is set.
    pub interrupted: &'r AtomicBool,
    /// Called with the name of each case.
    pub progress: fn(&str),
}

impl Run<'_> {
    /// Runs everything.
    pub fn measure(&self) -> Result<Measured> {
        let mut measured = Measured::default();
        let trace = self.trace()?;
        for workload in Workload::ALL {
            let cases = self.cases.iter().filter(|case| case.workload == workload);
            let cases: Vec<Case> = cases.copied().collect();
            if cases.is_empty() {
                continue;
            }
            if workload.recorded().is_some() && trace.is_none() {
                (self.progress)(&format!(
                    "{}: skipped: no trace is available",
                    workload.name()
                ));
                continue;
            }
            (self.progress)(&format!("{}: filling maps", workload.name()));
            let mut maps = Maps::new(workload, self.plan, trace.as_deref())?;
            measured.shapes.push(Shape::of(workload, &maps));
            // All rounds of a case are measured before the next case, because the removals and insertions of
            // a case change some maps for the following cases, for example by tombstones.
            for case in cases {
                self.measure_case(case, &mut maps, &mut measured.samples)?;
            }
            let (objects, expected) = (maps.larder.objects(), maps.keys.objects.len());
            ensure!(
                objects == expected as u64,
                "{objects} of {expected} objects are left in Larder's table"
            );
        }
        Ok(measured)
    }

    /// Returns the trace of recorded keys, or `None` if none is needed or available.
    fn trace(&self) -> Result<Option<PathBuf>> {
        let is_wanted = |case: &Case| case.workload.recorded().is_some();
        if self.plan.trace.is_some() || !self.cases.iter().any(is_wanted) {
            return Ok(self.plan.trace.clone());
        }
        if let Some(reason) = recorded::missing() {
            (self.progress)(&format!("cannot record a volume: {reason}"));
            return Ok(None);
        }
        (self.progress)("recording a volume");
        recorded::record(self.plan, self.folder).map(Some)
    }

    fn measure_case(&self, case: Case, maps: &mut Maps, samples: &mut Vec<Sample>) -> Result<()> {
        (self.progress)(&case.name());
        for round in 0..self.plan.rounds {
            for turn in 0..self.sides.len() {
                ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted");
                let side = self.sides[(turn + round) % self.sides.len()];
                if case.allows(side) {
                    let what = || format!("{} of {}", case.name(), side.name());
                    samples.push(maps.measure(case, side).with_context(what)?);
                }
            }
        }
        Ok(())
    }
}
