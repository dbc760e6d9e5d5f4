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
//! A mount uses `referenced` unless another is chosen: `rewrite/`. All others are in
//! [`research`](crate::research); of these `lru` and `list-lru` are `rewrite/` too, with another
//! order in place of `rewrite/order.rs`. All keep their entries in an [`Arena`](crate::table::Arena), whose memory comes
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
pub(crate) use cache::Holds;
pub use cache::{Deleted, Held, Inserted, MbCache, Stats};
pub use probe::{Probe, Touch};
pub use sizes::Config;
pub(crate) use sizes::Sizes;
pub use variant::{UnknownVariant, Variant};
