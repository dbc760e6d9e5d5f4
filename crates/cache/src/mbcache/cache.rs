//! What a variant provides: the contract that the [module](super) states.

use super::Variant;
use crate::shrink::Shrinker;
use crate::table::Slot;
use std::fmt::Debug;

/// What became of an entry offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is in the cache now.
    New,
    /// It was there already, and stays as it was.
    Existing,
    /// It is not in the cache: all entries that could make room are held, or memory is short.
    NoRoom,
}

/// What became of an entry to be deleted.
#[derive(Debug)]
pub enum Deleted<'c> {
    /// It is not in the cache (any more).
    Gone,
    /// Others hold it; so does the caller now.
    InUse(Held<'c>),
}

/// A cache of shared contents. See the [module](super) for what callers may rely on.
pub trait MbCache: Shrinker {
    /// Which variant it is.
    fn variant(&self) -> Variant;

    /// Adds an entry, which searches find if it is `reusable`. Over the limit, another goes first.
    fn insert(&self, key: u32, value: u64, reusable: bool) -> Inserted;

    /// The first reusable entry with `key`.
    fn find_first(&self, key: u32) -> Option<Held<'_>>;

    /// The next reusable entry with the key of `held`, which is let go.
    fn find_next<'c>(&'c self, held: Held<'c>) -> Option<Held<'c>>;

    /// The entry with `key` and `value`, reusable or not.
    fn get(&self, key: u32, value: u64) -> Option<Held<'_>>;

    /// Deletes the entry with `key` and `value` if nobody holds it.
    fn delete_or_get(&self, key: u32, value: u64) -> Deleted<'_>;

    /// The figures.
    fn stats(&self) -> Stats;

    /// Checks the invariants. Only when nobody else uses it.
    ///
    /// # Panics
    /// If one does not hold.
    fn check_invariants(&self);
}

/// An entry that stays where it is while this lives.
#[derive(Debug)]
pub struct Held<'c> {
    cache: &'c dyn Holds,
    pub(crate) index: u32,
    pub(crate) key: u32,
    value: u64,
}

impl<'c> Held<'c> {
    /// The entry in `slot`, whose number is `index`, and on which the caller has taken a pin.
    #[inline]
    pub(crate) fn new<const W: usize>(cache: &'c dyn Holds, index: u32, slot: &Slot<W>) -> Self {
        Self {
            cache,
            index,
            key: slot.aux(),
            value: slot.word(0),
        }
    }
}

impl Held<'_> {
    /// The hash of the contents.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key
    }

    /// The block or inode that has the contents.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// The entry was of use: it outlives the next turn of eviction.
    pub fn touch(&self) {
        self.cache.touch(self.index);
    }

    /// From now on, searches find the entry, or do not.
    pub fn set_reusable(&self, reusable: bool) {
        self.cache.set_reusable(self.index, reusable);
    }

    /// Parks until nobody else holds the entry.
    pub fn wait_unused(&self) {
        self.cache.wait_unused(self.index);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.cache.release(self.index);
    }
}

/// What [`Held`] asks of its cache, by the number of an entry that the caller holds.
pub(crate) trait Holds: Debug + Send + Sync {
    fn touch(&self, index: u32);
    fn set_reusable(&self, index: u32, reusable: bool);
    fn wait_unused(&self, index: u32);
    /// Lets go of it, once.
    fn release(&self, index: u32);
}

/// What a cache holds and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stats {
    /// Entries.
    pub entries: u64,
    /// Entries at most.
    pub limit_entries: u64,
    /// Buckets.
    pub buckets: u64,
    /// Bytes that an entry takes, buckets apart.
    pub entry_bytes: u64,
    /// Bytes that the entries and all buckets take.
    pub bytes: u64,
    /// Searches for a key.
    pub lookups: u64,
    /// Searches that found an entry, whatever it turned out to be.
    pub hits: u64,
    /// Entries inserted.
    pub inserted: u64,
    /// Entries that went because there were too many.
    pub dropped_by_limit: u64,
    /// Entries that went because memory was short.
    pub dropped_by_shrinker: u64,
}
