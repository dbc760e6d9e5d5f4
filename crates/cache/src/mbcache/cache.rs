//! The interface of a variant. The [module](super) states the contract.

use super::Variant;
use crate::shrink::Shrinker;
use crate::table::Slot;
use std::fmt::Debug;

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The entry was added.
    New,
    /// The entry existed already, and is unchanged.
    Existing,
    /// The entry was not added: all entries that could be evicted are held, or memory is short.
    NoRoom,
}

/// The result of a deletion.
#[derive(Debug)]
pub enum Deletion<'c> {
    /// The entry is not in the cache, or not any more.
    Absent,
    /// Other threads hold the entry, and now the caller does too.
    InUse(Held<'c>),
}

/// A cache of shared contents. The [module](super) describes what callers may rely on.
pub trait MbCache: Shrinker {
    /// Returns its variant.
    fn variant(&self) -> Variant;

    /// Adds an entry, which searches find if it is `reusable`. If the cache is over its limit,
    /// another entry is evicted first.
    fn insert(&self, key: u32, value: u64, reusable: bool) -> Inserted;

    /// Returns the first reusable entry with `key`.
    fn find_first(&self, key: u32) -> Option<Held<'_>>;

    /// Returns the next reusable entry with the key of `held`, and releases `held`.
    fn find_next<'c>(&'c self, held: Held<'c>) -> Option<Held<'c>>;

    /// Returns the entry with `key` and `value`, reusable or not.
    fn get(&self, key: u32, value: u64) -> Option<Held<'_>>;

    /// Deletes the entry with `key` and `value` if no thread holds it.
    fn delete_or_get(&self, key: u32, value: u64) -> Deletion<'_>;

    /// Returns the statistics.
    fn stats(&self) -> Stats;

    /// Checks the invariants. There must be no other users meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    fn check_invariants(&self);
}

/// A pinned entry, which is not evicted or deleted while this exists.
#[derive(Debug)]
pub struct Held<'c> {
    cache: &'c dyn EntryOperations,
    pub(crate) index: u32,
    pub(crate) key: u32,
    value: u64,
}

impl<'c> Held<'c> {
    /// Creates a guard for the entry in `slot`, whose number is `index`, and which the caller has
    /// pinned.
    #[inline]
    pub(crate) fn new<const W: usize>(
        cache: &'c dyn EntryOperations,
        index: u32,
        slot: &Slot<W>,
    ) -> Self {
        Self {
            cache,
            index,
            key: slot.aux(),
            value: slot.word(0),
        }
    }
}

impl Held<'_> {
    /// Returns the hash of the contents.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key
    }

    /// Returns the block or inode that has the contents.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Marks the entry as referenced, so that it survives the next turn of eviction.
    pub fn touch(&self) {
        self.cache.touch(self.index);
    }

    /// Sets whether searches find the entry.
    pub fn set_reusable(&self, reusable: bool) {
        self.cache.set_reusable(self.index, reusable);
    }

    /// Parks until no other thread holds the entry.
    pub fn wait_unused(&self) {
        self.cache.wait_unused(self.index);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.cache.release(self.index);
    }
}

/// The operations of a cache that [`Held`] uses. The caller holds the entry with the given number.
pub(crate) trait EntryOperations: Debug + Send + Sync {
    fn touch(&self, index: u32);
    fn set_reusable(&self, index: u32, reusable: bool);
    fn wait_unused(&self, index: u32);
    /// Releases one hold.
    fn release(&self, index: u32);
}

/// Statistics of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stats {
    /// Entries in the cache.
    pub entries: u64,
    /// The largest number of entries.
    pub limit_entries: u64,
    /// Buckets.
    pub buckets: u64,
    /// Bytes of one entry, without buckets.
    pub entry_bytes: u64,
    /// Bytes of the entries and all buckets.
    pub bytes: u64,
    /// Searches for a key.
    pub lookups: u64,
    /// Searches that found an entry, even if it proved to be useless.
    pub hits: u64,
    /// Entries inserted.
    pub inserted: u64,
    /// Entries that were evicted because there were too many.
    pub dropped_by_limit: u64,
    /// Entries that were evicted because memory was short.
    pub dropped_by_shrinker: u64,
}
