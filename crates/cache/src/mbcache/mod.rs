//! mbcache: finds the attribute block, or the inode of an attribute's value, whose contents equal those about
//! to be written, so that files with equal attributes share it.
//!
//! # Model
//! The kernel's `fs/mbcache.c`: a store of keys (hashes of contents, which need not be unique) and values
//! (numbers of blocks or inodes, which are unique). It stores only numbers, so a caller that finds an entry
//! must compare the contents. An entry is a hint: to lose one costs only a share.
//!
//! # Variants
//! J. Kara, "ext\[24\]: `MBCache` rewrite", 2016, compares four designs, and operation without a cache:
//!
//! | name | how entries are found | eviction order |
//! |---|---|---|
//! | [`old`](Variant::Old) | in several indexes, under one lock; holders wait for one another | LRU list of unused entries |
//! | [`lru`](Variant::Lru) | in buckets, each with a lock | one LRU list with a lock |
//! | [`list-lru`](Variant::ListLru) | as `lru` | LRU lists for each processor |
//! | [`referenced`](Variant::Referenced) | as `lru` | a list, and a referenced bit that spares an entry once |
//! | [`clock`](Variant::Clock) | in the [`table`](crate::table), without a lock | a clock hand over the arena, and the referenced bit |
//! | [`off`](Variant::Off) | never | |
//!
//! A mount uses `referenced` by default: `rewrite/`. All others are in [`research`](crate::research); of
//! these, `lru` and `list-lru` also use `rewrite/`, with another order instead of `rewrite/order.rs`. All
//! keep their entries in an [`Arena`](crate::table::Arena), whose memory is taken from the budget and
//! returned to it.
//!
//! # What callers may rely on
//! 1. A held entry ([`Held`]) remains in the cache with its key and value.
//! 2. [`MbCache::delete_or_get`] either deletes the entry, which then cannot be found, or returns it held. No
//!    thread can find it in between.
//! 3. A search ([`MbCache::find_first`], [`MbCache::find_next`]) returns reusable entries only, each at most
//!    once, and terminates.
//! 4. An entry that was touched survives one full turn of eviction. With a list as eviction order, it
//!    survives all entries that were not touched since. There are four exceptions: (a) in `old`, the release
//!    of an entry counts as a use, and a touch does not; (b) in `lru` and `list-lru`, a touch has no effect
//!    while the entry is being inserted and is not on a list yet; (c) in `clock`, the arena may have grown or
//!    given memory back since, which moves the hand and some entries; (d) the chain may be too long (6).
//! 5. No lookup, and no shrinking, allocates memory or waits for memory. A wait for an entry may, since it is
//!    recorded in a list.
//! 6. No chain has more than four times the entries that it would have if the cache were full and all chains
//!    had equal length, or more than 64 if that is larger. At Linux's limit this is 64, and 128 in the
//!    rewrite, whose limit can be exceeded. When a chain is full, its oldest entry that is not held is
//!    evicted for a new one. So no walk is long, whatever hashes are forged.
//! 7. The background work for a cache ends before the cache does.
//!
//! # Locking
//! The file of each variant describes its locks. All are innermost: the variant calls no other code with one
//! of them held. A thread that waits until an entry is unused ([`Held::wait_unused`]) must not hold anything
//! that the other holders need before they release the entry.

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
