//! A trace replayed in the caches' own table, compiled for one hash function.
//!
//! # Model
//! The table walks what the recorded one walked, if it has its function and size: objects come to
//! the front of their chains, and go when they went. Links are counted as in a mount.
//!
//! # Cost
//! 32 bytes an object and 4 a bucket.

use super::step::{Key, Step};
use larder_cache::hash::{Function, FunctionVisitor, HashKey};
use larder_cache::table::{
    Arena, Counts, Growth, HashFunction, Histogram, Layout, NUMBERS, Slot, Table,
};
use larder_cache::tape::Operation;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Words of a key in a slot.
const WORDS: usize = 2;

/// The heads of chains are asked for so many steps before they are needed: a replay knows what comes,
/// and waits for memory no more than it must.
const HEADS_AHEAD: usize = 16;

/// And their first objects so many.
const ENTRIES_AHEAD: usize = 8;

/// What an object takes, in bytes.
pub(super) const OBJECT_BYTES: u64 = size_of::<Slot<WORDS>>() as u64;

/// What a bucket takes, in bytes.
pub(super) const BUCKET_BYTES: u64 = 4;

/// A table of one function and size that events are followed in.
pub(super) trait Replay: Debug + Send {
    /// Does what `steps` tell.
    fn follow(&mut self, steps: &[Step]);
    /// What lookups did so far.
    fn counts(&self) -> Counts;
    /// Chain lengths.
    fn histogram(&self) -> Histogram;
    /// How long it takes to look up all of `keys`, and how many are there. Counts none of them.
    fn time(&mut self, keys: &[Key]) -> (Duration, u64);
}

/// Makes a table of 2^`bits` buckets with room for `objects`.
///
/// # Errors
/// The kernel's, for want of memory.
pub(super) fn open(function: Function, bits: u32, objects: u64) -> io::Result<Box<dyn Replay>> {
    // Slots are handed out to threads by eights.
    let slots = u32::try_from(objects + 64).unwrap_or(NUMBERS).min(NUMBERS);
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
        Ok(Box::new(Replayed {
            table: Table::<KeyLayout, H, WORDS>::new(arena, self.bits, 0, hash)?,
            timed: Counts::default(),
        }))
    }
}

/// Keys alone: both numbers that the function sees, and the device.
#[derive(Debug)]
struct KeyLayout;

impl Layout<WORDS> for KeyLayout {
    type Key<'k> = Key;
    type Hashed = HashKey;

    #[inline]
    fn hashed(key: &Key) -> HashKey {
        key.hashed
    }

    #[inline]
    fn hashed_in(slot: &Slot<WORDS>) -> HashKey {
        HashKey {
            object: slot.word(0),
            index: slot.word(1),
        }
    }

    #[inline]
    fn matches(key: &Key, slot: &Slot<WORDS>) -> bool {
        Self::hashed_in(slot) == key.hashed && slot.aux() == key.device
    }

    #[inline]
    fn store(key: &Key, slot: &Slot<WORDS>) {
        slot.set_word(0, key.hashed.object);
        slot.set_word(1, key.hashed.index);
        slot.set_aux(key.device);
    }
}

#[derive(Debug)]
struct Replayed<H> {
    table: Table<KeyLayout, H, WORDS>,
    /// What lookups did that were timed alone.
    timed: Counts,
}

impl<H: HashFunction<HashKey>> Replayed<H> {
    #[inline]
    fn look_up(&self, key: &Key) -> bool {
        self.table.copy(key, |_| ()).is_some()
    }

    fn insert(&self, key: &Key) {
        // There is room for the most that there ever are.
        if let Some(vacant) = self.table.take() {
            self.table.get_or_insert(key, vacant, 0, |_| {});
        }
    }
}

impl<H: HashFunction<HashKey>> Replay for Replayed<H> {
    fn follow(&mut self, steps: &[Step]) {
        for (at, Step { key, operation }) in steps.iter().enumerate() {
            if let Some(soon) = steps.get(at + HEADS_AHEAD) {
                self.table.prefetch_bucket(&soon.key);
            }
            if let Some(soon) = steps.get(at + ENTRIES_AHEAD) {
                self.table.prefetch_entry(&soon.key);
            }
            match operation {
                Operation::Lookup { hit } => {
                    if !self.look_up(key) && *hit {
                        // It came before the recording began, or its coming was lost.
                        self.insert(key);
                    }
                }
                Operation::Insert => self.insert(key),
                Operation::Remove => {
                    self.table.remove(key);
                }
            }
        }
    }

    fn counts(&self) -> Counts {
        self.table.counts() - self.timed
    }

    fn histogram(&self) -> Histogram {
        self.table.histogram()
    }

    fn time(&mut self, keys: &[Key]) -> (Duration, u64) {
        let before = self.table.counts();
        let began = Instant::now();
        for key in keys {
            self.look_up(key);
        }
        let took = began.elapsed();
        let counts = self.table.counts() - before;
        self.timed = self.timed + counts;
        (took, counts.hits)
    }
}
