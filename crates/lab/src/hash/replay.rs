//! Replays events in the table implementation that the caches use, compiled for one hash function, or in the
//! page cache's red-black trees.
//!
//! # Model
//! A replay inserts and removes each object at the same points in the sequence of events as in the
//! recording. It inserts at the front of the chain, as the caches do. Therefore a replay with the function
//! and size of the recorded table walks the same links as that table. Links are counted as on a mount.
//!
//! # Cost
//! An object takes 32 bytes, and a bucket 4.

use super::choice::own_function;
use super::index::Index;
use super::step::{Key, Step};
use super::trees::Trees;
use larder_cache::hash::{FunctionVisitor, HashKey};
use larder_cache::table::{
    Arena, Counts, Growth, HashFunction, Histogram, Layout, NUMBER_LIMIT, Slot, Table,
};
use larder_cache::tables::Finder;
use larder_cache::tape::{CacheKind, Operation};
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of words of a slot, all of which store the key.
const WORDS: usize = 2;

/// Number of steps between two prefetches for a key, and between the last prefetch and the lookup of the key.
/// A replay knows the following steps, so it prefetches their memory instead of waiting for it.
const AHEAD: usize = 12;

/// Memory for an object, in bytes.
pub(super) const OBJECT_BYTES: u64 = size_of::<Slot<WORDS>>() as u64;

/// Memory for a bucket, in bytes.
pub(crate) const BUCKET_BYTES: u64 = 4;

/// A structure in which the events of one cache are replayed: a table of one function and size, or trees.
pub(super) trait Replay: Debug + Send {
    /// Executes `steps`.
    fn follow(&mut self, steps: &[Step]);
    /// Returns the counts of the lookups so far.
    fn counts(&self) -> Counts;
    /// Returns the number of objects that are present.
    fn objects(&self) -> u64;
    /// Returns the chain lengths; empty for trees.
    fn histogram(&self) -> Histogram;
    /// Looks up all of `keys`, and returns the duration and the number of hits. [`Self::counts`] does not
    /// include these lookups.
    fn time(&mut self, keys: &[Key]) -> (Duration, u64);
}

/// Creates the structure that finds objects of `cache` by `finder`, with room for `objects`: a table of
/// 2^`bits` buckets, or trees whose roots are in 2^`bits` chains.
///
/// # Errors
/// Returns the kernel's error if there is not enough memory.
pub(super) fn open(
    cache: CacheKind,
    finder: Finder,
    bits: u32,
    objects: u64,
) -> io::Result<Box<dyn Replay>> {
    // The arena assigns slots to threads in groups of eight, so some slots can be unavailable to this thread.
    let slots = u32::try_from(objects + 64)
        .unwrap_or(NUMBER_LIMIT)
        .min(NUMBER_LIMIT);
    let function = match finder {
        Finder::Larder => own_function(cache),
        Finder::Function(function) => function,
        Finder::RedBlackTrees => return Ok(Replayed::of(Trees::new(slots, bits)?)),
    };
    function.visit(Open { bits, slots })
}

struct Open {
    bits: u32,
    slots: u32,
}

impl FunctionVisitor for Open {
    type Output = io::Result<Box<dyn Replay>>;

    fn visit<H: HashFunction<HashKey> + Copy + 'static>(self, hash: H) -> Self::Output {
        let arena = Arc::new(Arena::new(self.slots, Growth::Prepaid)?);
        let table = Table::<KeyLayout, H, WORDS>::new(arena, self.bits, 0, hash)?;
        Ok(Replayed::of(table))
    }
}

/// The layout of an entry that consists of a key only: the two numbers that the function hashes, and the
/// device.
#[derive(Debug)]
struct KeyLayout;

impl Layout<WORDS> for KeyLayout {
    type Key<'k> = Key;
    type HashInput = HashKey;

    #[inline]
    fn hash_input(key: &Key) -> HashKey {
        key.hashed
    }

    #[inline]
    fn hash_input_in(slot: &Slot<WORDS>) -> HashKey {
        HashKey {
            object: slot.word(0),
            index: slot.word(1),
        }
    }

    #[inline]
    fn matches(key: &Key, slot: &Slot<WORDS>) -> bool {
        Self::hash_input_in(slot) == key.hashed && slot.aux() == key.device
    }

    #[inline]
    fn store(key: &Key, slot: &Slot<WORDS>) {
        slot.set_word(0, key.hashed.object);
        slot.set_word(1, key.hashed.index);
        slot.set_aux(key.device);
    }
}

impl<H: HashFunction<HashKey>> Index for Table<KeyLayout, H, WORDS> {
    #[inline]
    fn look_up(&self, key: &Key) -> bool {
        self.copy(key, |_| ()).is_some()
    }

    fn insert(&self, key: &Key) {
        // The arena has room for the largest number of objects, so this always succeeds.
        if let Some(vacant) = self.allocate() {
            self.get_or_insert(key, vacant, 0, |_| {});
        }
    }

    fn remove(&self, key: &Key) {
        Table::remove(self, key);
    }

    fn counts(&self) -> Counts {
        Table::counts(self)
    }

    fn objects(&self) -> u64 {
        Table::objects(self)
    }

    fn histogram(&self) -> Histogram {
        Table::histogram(self)
    }

    #[inline]
    fn prefetch_bucket(&self, key: &Key) {
        Table::prefetch_bucket(self, key);
    }

    #[inline]
    fn prefetch_entry(&self, key: &Key) {
        Table::prefetch_entry(self, key);
    }

    #[inline]
    fn prefetch_next(&self, key: &Key) {
        Table::prefetch_next(self, key);
    }
}

/// A structure in which a trace is replayed, and the counts that `counts` must omit.
#[derive(Debug)]
struct Replayed<I> {
    index: I,
    /// Counts of the lookups that `time` made.
    timed: Counts,
}

impl<I: Index + 'static> Replayed<I> {
    fn of(index: I) -> Box<dyn Replay> {
        let timed = Counts::default();
        Box::new(Self { index, timed })
    }
}

impl<I: Index> Replay for Replayed<I> {
    fn follow(&mut self, steps: &[Step]) {
        for (at, Step { key, operation }) in steps.iter().enumerate() {
            let later = |hints: usize| steps.get(at + AHEAD * hints).map(|step| &step.key);
            if let Some(key) = later(3) {
                self.index.prefetch_bucket(key);
            }
            if let Some(key) = later(2) {
                self.index.prefetch_entry(key);
            }
            if let Some(key) = later(1) {
                self.index.prefetch_next(key);
            }
            match operation {
                Operation::Lookup { hit } => {
                    if !self.index.look_up(key) && *hit {
                        // The object was inserted before the recording began, or its insertion was lost.
                        self.index.insert(key);
                    }
                }
                Operation::Insert => self.index.insert(key),
                Operation::Remove | Operation::Evict => self.index.remove(key),
            }
        }
    }

    fn counts(&self) -> Counts {
        self.index.counts() - self.timed
    }

    fn objects(&self) -> u64 {
        self.index.objects()
    }

    fn histogram(&self) -> Histogram {
        self.index.histogram()
    }

    fn time(&mut self, keys: &[Key]) -> (Duration, u64) {
        let before = self.index.counts();
        let began = Instant::now();
        for key in keys {
            self.index.look_up(key);
        }
        let took = began.elapsed();
        let counts = self.index.counts() - before;
        self.timed = self.timed + counts;
        (took, counts.hits)
    }
}
