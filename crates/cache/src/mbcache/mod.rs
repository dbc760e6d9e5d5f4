//! mbcache: a cache that finds attributes with given contents, so that files with equal attributes can
//! share the attribute block, or the inode that contains the attribute's value.
//!
//! # Model
//! The kernel's `fs/mbcache.c`. An entry has a key and a value. The key is the hash of the contents. The value
//! is the number of the block or inode with the contents. Several entries can have the same key, but no two
//! entries have the same key and the same value. The cache does not store the contents. So a caller that finds
//! an entry must read the contents and compare them. The entries are hints: if an entry is missing, the
//! contents are stored again instead of being shared.
//!
//! An entry is *held* while a [`Held`] refers to it. An entry is *reusable* if another file may share the
//! contents, that is, if the contents have fewer users than ext4 permits.
//!
//! # Variants
//! J. Kara, "ext\[24\]: `MBCache` rewrite", 2016, compares `old`, `lru`, `list-lru`, `referenced` and `off`.
//! `clock` is Larder's own design.
//!
//! | name | how entries are found | eviction order |
//! |---|---|---|
//! | [`old`](Variant::Old) | in two indexes with one lock; a lookup by key and value holds the entry exclusively | an LRU list of the entries that are not held |
//! | [`lru`](Variant::Lru) | in buckets, each with a lock | one LRU list with a lock |
//! | [`list-lru`](Variant::ListLru) | in buckets, each with a lock | an LRU list for each NUMA node; in a mount, for each processor |
//! | [`referenced`](Variant::Referenced) | in buckets, each with a lock | a list, and a referenced bit that spares an entry once |
//! | [`clock`](Variant::Clock) | in the [`table`](crate::table): a search by key takes no lock; a lookup by key and value locks the bucket | a clock hand over the arena, and a referenced bit |
//! | [`off`](Variant::Off) | not at all | none |
//!
//! By default, a mount uses `referenced`, which is implemented in `rewrite/`. `old`, `clock` and the eviction
//! orders of `lru` and `list-lru` are in [`research`](crate::research). Apart from their eviction orders,
//! `lru` and `list-lru` use `rewrite/`. All variants except `off` keep their entries in an
//! [`Arena`](crate::table::Arena), whose memory counts towards `cache_size`.
//!
//! # What callers may rely on
//! 1. A held entry ([`Held`]) remains in the cache with its key and value.
//! 2. [`MbCache::delete_or_get`] deletes the entry, unless a thread holds it. If a thread holds the entry, the
//!    method holds it for the caller, too, and returns it. The check and the deletion are one atomic step: no
//!    thread can find the entry between them.
//! 3. A search ([`MbCache::find_first`], [`MbCache::find_next`]) returns only reusable entries, returns each
//!    of them at most once, and terminates.
//! 4. A touch delays the eviction of an entry. In `lru` and `list-lru`, the entry moves to the end of its
//!    list. In `referenced` and `clock`, eviction passes over the entry once. The exceptions are:
//!    - In `old`, the release of an entry counts as a use, and a touch has no effect.
//!    - In `lru` and `list-lru`, a touch has no effect while the entry is being inserted and is not on a list
//!      yet.
//!    - In `clock`, the hand can reach the entry again soon after it has passed over the entry: the hand jumps
//!      when the arena grows or gives memory back. Giving memory back also moves entries to other slots.
//!    - In all variants, an entry that was touched can be evicted because its chain is full (see item 6).
//! 5. Lookups and shrinking do not allocate memory or wait for memory. [`Held::wait_unused`] may allocate
//!    memory for its list of waiters.
//! 6. The maximum length of a chain is four times the mean length in a full arena, or 64, whichever is more.
//!    With Linux's limit of entries, the maximum is 128 in `rewrite/`, and 64 in the other variants.
//!    The arena of `rewrite/` has room for twice the limit, because a worker evicts the excess later. A new
//!    entry in a full chain replaces the oldest entry of the chain that is not held. If all entries of the
//!    chain are held, the insertion fails ([`Inserted::NoRoom`]). So the walk of a chain is short even if an
//!    attacker chooses the hashes.
//! 7. The drop of a cache waits for the worker that evicts entries in the background.
//!
//! # Locking
//! The file of each variant describes its locks. While a thread holds one of these locks, it calls no code
//! outside mbcache and its arena. A thread in [`Held::wait_unused`] waits for the other holders of an entry.
//! The thread must not hold a lock that these holders need before they release the entry.

mod build;
mod cache;
pub(crate) mod entries;
pub(crate) mod list;
mod off;
pub(crate) mod probe;
pub(crate) mod rewrite;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod sizes;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod variant;

pub use build::{AttributeCaches, build};
pub(crate) use cache::EntryOperations;
pub use cache::{Deletion, Held, Inserted, MbCache, Stats};
pub use probe::{Probe, Touch};
pub use sizes::Config;
pub(crate) use sizes::Sizes;
pub use variant::{UnknownVariant, Variant};
