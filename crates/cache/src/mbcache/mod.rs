//! mbcache: finds the attribute block, or the inode of an attribute's value, that has the same
//! contents as one about to be written, so that files with equal attributes share it.
//!
//! # Model
//! The kernel's `fs/mbcache.c`: a store of keys (hashes of contents, which need not be unique) and
//! values (numbers of blocks or inodes, which are unique). It knows numbers only: whoever finds
//! one compares the contents himself. An entry is a hint; losing one costs a share, no more.
//!
//! # Variants
//! J. Kara, "ext\[24\]: `MBCache` rewrite", 2016, compares four ways to do this, and doing without:
//!
//! | name | how entries are found | which entry goes first |
//! |---|---|---|
//! | [`old`](Variant::Old) | in several indexes, under one lock; holders wait for one another | LRU list of unused entries |
//! | [`lru`](Variant::Lru) | in buckets, each with a lock | one LRU list with a lock |
//! | [`list-lru`](Variant::ListLru) | as `lru` | LRU lists for each processor |
//! | [`referenced`](Variant::Referenced) | as `lru` | a list, and a referenced bit that spares an entry once |
//! | [`clock`](Variant::Clock) | in the [`table`](crate::table), without a lock | a clock hand over the arena, and the referenced bit |
//! | [`off`](Variant::Off) | never | |
//!
//! A mount uses `referenced` unless another is chosen. `old` and `clock`, which is ours, are in
//! [`research`](crate::research), `lru` and `list-lru` differ from `referenced` in
//! `rewrite/lists.rs` alone. All keep their entries in an [`Arena`](crate::table::Arena), whose memory comes
//! out of the budget and goes back to it.
//!
//! # What callers may rely on
//! 1. An entry that is held ([`Held`]) stays, and keeps its key and value.
//! 2. [`MbCache::delete_or_get`] either deletes, after which nobody finds the entry, or returns
//!    it held: nobody can find it in between.
//! 3. A search ([`MbCache::find_first`], [`MbCache::find_next`]) returns reusable entries only,
//!    each at most once, and ends.
//! 4. An entry that was touched outlives one full turn of eviction, or, where a list says which goes
//!    first, all entries that were not touched since. Not so
//!    - in `old`, where to let go of an entry counts as its use, and a touch as none;
//!    - in `lru` and `list-lru` of a touch before the entry is on a list, while it is being inserted;
//!    - in `clock` when the arena has grown or given memory back since, which moves the hand, and some
//!      entries;
//!    - in a chain that is too long (6).
//! 5. No lookup, and no shrinking, allocates memory or waits for memory. Waiting for an entry may: it
//!    is noted in a list.
//! 6. No chain has more than four times as many entries as it would if the cache were full and all were
//!    equally long, or 64 if that is more: at Linux's limit 64, and 128 in the rewrite, whose limit may
//!    be overrun. From then on the oldest that nobody holds goes for a new one, so that no walk is long,
//!    whatever hashes are forged.
//! 7. With the cache, whatever works for it has ended.
//!
//! # Locking
//! What locks a variant has, its file says. All are innermost: nothing is called with one held. Who
//! waits until an entry is unused ([`Held::wait_unused`]) must hold nothing that the other holders
//! need before they let go.

mod build;
pub(crate) mod entries;
pub(crate) mod list;
mod off;
pub(crate) mod probe;
mod rewrite;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod sizes;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod variant;

pub use build::{AttributeCaches, build};
pub use probe::{Probe, Touch};
pub(crate) use sizes::Sizes;
pub use variant::{UnknownVariant, Variant};

use crate::shrink::Shrinker;
use std::fmt::Debug;

/// The sizes of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Entries at most.
    pub limit_entries: u32,
    /// 2^`bits` buckets.
    pub bits: u32,
}

impl Config {
    /// Entries at most, in Linux: 16 for each of 1,024 buckets. Our default too.
    pub const LINUX_LIMIT_ENTRIES: u32 = 16 << Self::LINUX_BITS;
    /// Linux has 2^10 buckets, whatever the limit.
    pub const LINUX_BITS: u32 = 10;

    /// For `variant` with so many entries at most: buckets as Linux has them for what was published,
    /// one for one or two entries for ours, and nowhere more than one an entry.
    #[must_use]
    pub fn new(variant: Variant, limit_entries: u32) -> Self {
        let bits = limit_entries.max(1).ilog2();
        let bits = match variant {
            Variant::Clock => bits,
            _ => bits.min(Self::LINUX_BITS),
        };
        Self {
            limit_entries,
            bits,
        }
    }
}

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

/// A cache of shared contents. See the [module](self) for what callers may rely on.
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
    pub(crate) cache: &'c dyn holds::Holds,
    pub(crate) index: u32,
    pub(crate) key: u32,
    pub(crate) value: u64,
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

/// What [`Held`] asks of its cache.
pub(crate) mod holds {
    use std::fmt::Debug;

    /// By the number of an entry that the caller holds.
    pub trait Holds: Debug + Send + Sync {
        fn touch(&self, index: u32);
        fn set_reusable(&self, index: u32, reusable: bool);
        fn wait_unused(&self, index: u32);
        /// Lets go of it, once.
        fn release(&self, index: u32);
    }
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
