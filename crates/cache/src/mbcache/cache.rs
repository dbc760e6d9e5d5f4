//! The interface that all variants implement. The [module](super) states what callers may rely on.

use super::Variant;
use crate::shrink::Shrinker;
use crate::table::Slot;
use std::fmt::Debug;

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The entry was added.
    New,
    /// An entry with the key and the value was in the cache already. It was not changed.
    Existing,
    /// The entry was not added: the cache or the entry's chain is full, and no entry could be evicted. The
    /// variant `off` always returns this result.
    NoRoom,
}

/// The result of [`MbCache::delete_or_get`].
#[derive(Debug)]
pub enum Deletion<'c> {
    /// The entry is not in the cache: it was deleted, or was not found.
    Absent,
    /// The entry was not deleted, because a thread holds it. The caller now holds it as well.
    InUse(Held<'c>),
}

/// A cache that finds stored extended attributes by a hash of their contents, so that files with equal attributes
/// can share them. The [module](super) states what callers may rely on.
pub trait MbCache: Shrinker {
    /// Returns the variant of this cache.
    fn variant(&self) -> Variant;

    /// Adds an entry, unless one with the same `key` and `value` exists. If necessary, evicts other entries
    /// first. `reusable` states whether other files may share the contents. Searches ([`MbCache::find_first`] and
    /// [`MbCache::find_next`]) return the entry only while it is reusable.
    fn insert(&self, key: u32, value: u64, reusable: bool) -> Inserted;

    /// Returns the first reusable entry with `key`, and holds it (see [`Held`]).
    fn find_first(&self, key: u32) -> Option<Held<'_>>;

    /// Returns the next reusable entry with the key of `held`, and holds it. Releases `held`.
    fn find_next<'c>(&'c self, held: Held<'c>) -> Option<Held<'c>>;

    /// Returns the entry with `key` and `value`, even if it is not reusable, and holds it. In the variant
    /// `old`, waits until no other thread holds the entry.
    fn get(&self, key: u32, value: u64) -> Option<Held<'_>>;

    /// Deletes the entry with `key` and `value` if no thread holds it. If a thread holds the entry, returns
    /// the entry, and holds it for the caller as well. In the variant `old`, first waits if a thread holds the
    /// entry because of [`MbCache::get`].
    fn delete_or_get(&self, key: u32, value: u64) -> Deletion<'_>;

    /// Returns the statistics of the cache.
    fn stats(&self) -> Stats;

    /// Checks the invariants. No other thread may use the cache meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    fn check_invariants(&self);
}

/// An entry that is held: while this guard exists, the entry is not evicted or deleted.
#[derive(Debug)]
pub struct Held<'c> {
    cache: &'c dyn EntryOperations,
    pub(crate) index: u32,
    pub(crate) key: u32,
    value: u64,
}

impl<'c> Held<'c> {
    /// Creates a guard for the entry in `slot`, the slot with the number `index`. The caller must have
    /// counted a hold (a pin of the slot), which the guard takes over.
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
    /// Returns the key: the hash of the contents.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key
    }

    /// Returns the value: the number of the block or inode with the contents.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Records a use of the entry, which delays its eviction. The [module](super) states how, and lists
    /// the exceptions.
    pub fn touch(&self) {
        self.cache.touch(self.index);
    }

    /// Sets whether the entry is reusable. Searches find only reusable entries.
    pub fn set_reusable(&self, reusable: bool) {
        self.cache.set_reusable(self.index, reusable);
    }

    /// Parks the calling thread until no other thread holds the entry. Threads that wait in this method hold the
    /// entry, too, but do not count.
    pub fn wait_unused(&self) {
        self.cache.wait_unused(self.index);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.cache.release(self.index);
    }
}

/// The operations of a cache that [`Held`] uses. The argument `index` is the number of the entry's slot.
/// The caller must hold the entry.
pub(crate) trait EntryOperations: Debug + Send + Sync {
    fn touch(&self, index: u32);
    fn set_reusable(&self, index: u32, reusable: bool);
    fn wait_unused(&self, index: u32);
    /// Ends one hold of the entry.
    fn release(&self, index: u32);
}

/// Statistics of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stats {
    /// The number of entries in the cache.
    pub entries: u64,
    /// The limit of entries ([`Config::limit_entries`](super::Config::limit_entries)).
    pub limit_entries: u64,
    /// The number of buckets, in all indexes together.
    pub buckets: u64,
    /// The size of one entry in bytes, without buckets.
    pub entry_bytes: u64,
    /// The memory of all entries and buckets in bytes, including that of removed entries, which is kept for reuse.
    pub bytes: u64,
    /// The number of calls of [`MbCache::find_first`].
    pub lookups: u64,
    /// The number of these calls that found an entry. The contents of the entry can nevertheless differ
    /// from the contents that the caller wanted to share.
    pub hits: u64,
    /// The number of entries inserted so far.
    pub inserted: u64,
    /// The number of entries that were evicted because the cache or a chain was full.
    pub dropped_by_limit: u64,
    /// The number of entries that were evicted because the memory budget was used up.
    pub dropped_by_shrinker: u64,
}
