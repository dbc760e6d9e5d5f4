//! Records operations for the simulation. Each operation is a *set*: it sets one attribute of a file in
//! xattr-bench's [`engine`](crate::xattr_bench::engine). The set's accesses to the locks, lines and entries
//! of a variant of mbcache are recorded.
//!
//! # Model
//! One thread executes one set of each process in turn, so the same seed always records the same steps. For
//! variants with lists for each node, the thread pretends to run on a different processor for each process.
//! The cache has room for all files. Evictions, and the thread that evicts entries in the background, are not
//! recorded.
//!
//! Each set writes the lines that all sets of the file system share, and changes blocks: the block of the
//! inode, the attribute block that the file stops using, and the one that it uses afterwards. A block that is
//! freed remains in the running transaction.
//!
//! `old` is recorded as ext4 used it until 2016. Before a set changed or copied the block of a file, it
//! looked up the block's entry by the number of the block. Such a lookup holds the entry exclusively. The set
//! repeated the lookup to release the block. Larder's file system counts the users of a block in the block. It
//! looks up an entry by number only when the number of users reaches the limit, and when the last user releases
//! the block.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder::MbCacheVariant;
use larder_cache::mbcache::{self, Config, MbCache, Probe, Touch};
use larder_cache::table::Growth;
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::Step;
use crate::workload::chance::generator;
use crate::xattr_bench::engine::{Blocks, Process};
use crate::xattr_bench::{BenchConfig, Case, Error};

/// The work of the file system in a set, excluding the cache. Times are in nanoseconds.
///
/// Each set takes a random time from half to one and a half times these values. With constant times,
/// the sets would run in lockstep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FileSystemWork {
    /// Time before the lookup in the cache.
    pub before_ns: u64,
    /// Time during which an entry is held, to compare contents and count users. If a set holds several
    /// entries one after the other, the time is divided evenly among them.
    pub held_ns: u64,
    /// Number of cache lines that all sets write, such as the counts of handles and blocks in a transaction.
    pub shared_lines: u32,
}

/// Parameters of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Recording {
    /// Number of processors on which the processes run.
    pub processors: usize,
    /// Number of NUMA nodes, among which the processors are distributed in turn.
    pub nodes: usize,
    /// Number of recorded sets of each process. Before them, each process makes one unrecorded set of each
    /// file.
    pub operations: u32,
    /// Time that the file system spends.
    pub work: FileSystemWork,
    /// Whether the entries of full blocks are marked as not reusable.
    pub has_reusable_flag: bool,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Recording {
    /// Returns the operations of each process of `case` under `variant`.
    ///
    /// # Errors
    /// Returns [`Error::Cache`] if the cache cannot be created.
    pub fn of(&self, variant: MbCacheVariant, case: Case) -> Result<Vec<Vec<Vec<Step>>>, Error> {
        let recorder = Recorder::new(self.processors, self.nodes);
        let cache = cache(variant, case, recorder.clone())?;
        let config = BenchConfig {
            operations: case.files + self.operations,
            is_warm: false,
            runs: 1,
            seed: self.seed,
        };
        let mut blocks = Blocks::new(case, &config);
        if !self.has_reusable_flag {
            blocks = blocks.without_reusable_flag();
        }
        let mut processes: Vec<Recorded<'_>> = (0..case.processes)
            .map(|number| Recorded {
                process: Process::new(number, &blocks, &*cache, case, &config),
                random: generator(self.seed, u64::from(number)),
                operations: Vec::new(),
            })
            .collect();
        for turn in 0..config.operations {
            for (number, recorded) in processes.iter_mut().enumerate() {
                recorder.move_to(number % self.processors);
                let (touches, dirty) = recorded.set(&*cache, &recorder);
                if turn >= case.files {
                    let inode =
                        u64::from(turn % case.files) + number as u64 * u64::from(case.files);
                    let mut steps = self.work.around(&touches, &mut recorded.random);
                    steps.extend(dirty.map(|block| Step::Dirty(place::attribute_block(block))));
                    steps.push(Step::Dirty(place::inode_block(inode)));
                    recorded.operations.push(steps);
                }
            }
        }
        let operations = processes.into_iter().map(|recorded| recorded.operations);
        Ok(operations.collect())
    }
}

struct Recorded<'c> {
    process: Process<'c>,
    random: Pcg64Mcg,
    operations: Vec<Vec<Step>>,
}

impl Recorded<'_> {
    /// Executes the next set. Returns its accesses, and the attribute blocks that it changes.
    fn set(
        &mut self,
        cache: &dyn MbCache,
        recorder: &Recorder,
    ) -> (Vec<Touched>, impl Iterator<Item = usize> + use<>) {
        let is_old = cache.variant() == MbCacheVariant::Old;
        let left = self.process.next_left().filter(|_| is_old);
        let look_up_left = || {
            let held = left.map(|(key, block)| cache.get(key, block));
            drop(held);
            let touches = recorder.take().into_iter();
            touches.map(|touch| Touched {
                touch,
                is_worked: matches!(touch, Touch::Release(_)),
            })
        };
        let mut touched: Vec<Touched> = look_up_left().collect();
        let file = self.process.next_file();
        let block = |process: &Process<'_>| file.and_then(|file| process.block(file));
        let before = block(&self.process);
        let is_changed = self.process.next_left().is_some() || before.is_none();
        self.process.step();
        let after = block(&self.process).filter(|_| is_changed);
        touched.extend(found_and_inserted(recorder.take()));
        touched.extend(look_up_left());
        // A block that is changed in place is both `before` and `after`, but is recorded only once.
        let left = before.filter(|before| is_changed && Some(*before) != after);
        (touched, left.into_iter().chain(after))
    }
}

/// An access during a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touched {
    touch: Touch,
    /// Whether the access releases an entry that the file system has worked on.
    is_worked: bool,
}

/// Marks the accesses of a set that release an entry after the file system has worked on it. The file system
/// works on an entry that a search found, but releases an inserted entry at once.
fn found_and_inserted(touches: Vec<Touch>) -> impl Iterator<Item = Touched> {
    let mut found = HashSet::new();
    touches.into_iter().map(move |touch| {
        if let Touch::HoldShared(place) = touch {
            found.insert(place);
        }
        Touched {
            touch,
            is_worked: matches!(touch, Touch::Release(place) if found.remove(&place)),
        }
    })
}

/// Creates a cache with room for all files.
fn cache(
    variant: MbCacheVariant,
    case: Case,
    recorder: Recorder,
) -> Result<Box<dyn MbCache>, Error> {
    let files = u32::try_from(case.all_files()).unwrap_or(u32::MAX);
    let limit_entries = Config::LINUX_LIMIT_ENTRIES.max(files.saturating_mul(2));
    let config = Config::new(variant, limit_entries);
    mbcache::build(variant, config, Growth::Prepaid, recorder)
        .map_err(|source| Error::Cache { variant, source })
}

impl FileSystemWork {
    /// Returns the steps of a set with these accesses.
    fn around(self, touched: &[Touched], random: &mut Pcg64Mcg) -> Vec<Step> {
        let mut some = |ns: u64| Step::Work(ns / 2 + random.random_range(0..=ns));
        let worked = touched.iter().filter(|touched| touched.is_worked).count();
        let held_ns = self.held_ns / (worked as u64).max(1);
        let mut steps = vec![some(self.before_ns)];
        let shared = (0..self.shared_lines).map(place::shared_line);
        steps.extend(shared.map(|line| Step::Touch(Touch::Write(line))));
        for Touched { touch, is_worked } in touched {
            if *is_worked {
                let ends_locking = matches!(steps.last(), Some(Step::Touch(Touch::Lock(_))));
                steps.insert(steps.len() - usize::from(ends_locking), some(held_ns));
            }
            steps.push(Step::Touch(*touch));
        }
        if worked == 0 {
            steps.push(some(held_ns));
        }
        steps
    }
}

/// The numbers of lines and blocks of the file system. The lines of the cache have other numbers.
mod place {
    /// Number of inodes in a block of the inode table.
    const INODES_IN_BLOCK: u64 = 16;

    pub(super) fn shared_line(line: u32) -> u64 {
        1 << 63 | u64::from(line)
    }

    pub(super) fn attribute_block(block: usize) -> u64 {
        block as u64
    }

    pub(super) fn inode_block(inode: u64) -> u64 {
        (1 << 63) | (inode / INODES_IN_BLOCK)
    }
}

/// A probe that records the accesses that the cache reports.
#[derive(Clone, Debug)]
struct Recorder {
    processors: usize,
    nodes: usize,
    record: Arc<Mutex<Record>>,
}

#[derive(Debug, Default)]
struct Record {
    processor: usize,
    touches: Vec<Touch>,
}

impl Recorder {
    fn new(processors: usize, nodes: usize) -> Self {
        Self {
            processors,
            nodes,
            record: Arc::default(),
        }
    }

    /// Sets the processor that the cache sees as the current one.
    fn move_to(&self, processor: usize) {
        self.record().processor = processor;
    }

    /// Returns the accesses since the last call.
    fn take(&self) -> Vec<Touch> {
        std::mem::take(&mut self.record().touches)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        // No code panics while it holds this lock.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Probe for Recorder {
    fn touched(&self, touch: Touch) {
        self.record().touches.push(touch);
    }

    fn processors(&self) -> usize {
        self.processors
    }

    fn processor(&self) -> usize {
        self.record().processor
    }

    fn nodes(&self) -> usize {
        self.nodes
    }

    fn node(&self) -> usize {
        self.processor() % self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::Seed;
    use std::collections::HashMap;

    const CASE: Case = Case {
        processes: 3,
        files: 5,
        values: 4,
    };

    fn record(variant: MbCacheVariant) -> Vec<Vec<Vec<Step>>> {
        let recording = Recording {
            processors: 2,
            nodes: 2,
            operations: 20,
            work: FileSystemWork {
                before_ns: 1000,
                held_ns: 200,
                shared_lines: 1,
            },
            has_reusable_flag: true,
            seed: Seed::from_environment(1).0,
        };
        recording.of(variant, CASE).unwrap()
    }

    #[test]
    fn recording_with_the_same_seed_is_equal() {
        for variant in MbCacheVariant::ALL {
            let recorded = record(variant);
            assert!(recorded == record(variant), "{variant}");
            let lens: Vec<_> = recorded.iter().map(Vec::len).collect();
            assert_eq!(lens, [20; 3], "{variant}");
        }
    }

    #[test]
    fn recorded_set_releases_everything_that_it_acquired() {
        for variant in MbCacheVariant::ALL {
            for operation in record(variant).iter().flatten() {
                let mut taken: HashMap<u64, i32> = HashMap::new();
                for step in operation {
                    match step {
                        Step::Touch(
                            Touch::Lock(place)
                            | Touch::HoldExclusive(place)
                            | Touch::HoldShared(place),
                        ) => *taken.entry(*place).or_default() += 1,
                        Step::Touch(Touch::Unlock(place) | Touch::Release(place)) => {
                            *taken.entry(*place).or_default() -= 1;
                        }
                        _ => {}
                    }
                }
                assert!(
                    taken.values().all(|count| *count == 0),
                    "{variant}: {operation:?}"
                );
            }
        }
    }

    #[test]
    fn work_on_a_held_entry_precedes_the_lock_of_its_release() {
        let [lock, unlock] = [Touch::Lock(1), Touch::Unlock(1)];
        let [hold, release] = [Touch::HoldShared(2), Touch::Release(2)];
        let [insert, release_inserted] = [Touch::HoldExclusive(3), Touch::Release(3)];
        let set = vec![
            lock,
            hold,
            unlock,
            lock,
            release,
            unlock,
            insert,
            release_inserted,
        ];
        let touched: Vec<Touched> = found_and_inserted(set).collect();
        let work = FileSystemWork {
            before_ns: 0,
            held_ns: 0,
            shared_lines: 0,
        };
        let steps = work.around(&touched, &mut generator(1, 0));
        let work = Step::Work(0);
        let [lock, unlock, hold, release] = [lock, unlock, hold, release].map(Step::Touch);
        let [insert, release_inserted] = [insert, release_inserted].map(Step::Touch);
        assert_eq!(
            steps,
            [
                work,
                lock,
                hold,
                unlock,
                work,
                lock,
                release,
                unlock,
                insert,
                release_inserted
            ]
        );
    }

    #[test]
    fn old_holds_the_previous_entry_of_a_set_exclusively() {
        let holds = |variant| {
            let recorded = record(variant);
            let steps = recorded.iter().flatten().flatten();
            let exclusive = |step: &&Step| matches!(step, Step::Touch(Touch::HoldExclusive(_)));
            steps.filter(exclusive).count()
        };
        let sets = 3 * 20;
        assert!(
            holds(MbCacheVariant::Old) > sets,
            "at least one for most sets"
        );
        assert_eq!(holds(MbCacheVariant::Referenced), 0);
    }
}
