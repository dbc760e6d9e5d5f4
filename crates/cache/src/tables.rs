//! The choice of the caches' tables: their hash functions, their numbers of buckets, which lookups of inodes
//! use the table of inodes, and how dentries are shrunk.
//!
//! # Model
//! A named set of tables, for example the tables of a kernel that Lever measured (Lever 2000, section 4).
//! Each table of the set can be replaced. The option `tables=` of a volume has this form:
//!
//! ```text
//! [BASE][+CACHE=FUNCTION[/SIZE]]...[+sizes=RULE][+iget=misses|all][+shrink=normal|eager]
//! ```
//!
//! | word | values |
//! |---|---|
//! | `BASE` | the set of tables: `larder` (the default), `reference` (Linux 2.2.5), or Lever's kernel `A`, `B`, `C` or `D` |
//! | `CACHE` | the cache whose table is replaced: `page`, `buffer`, `dentry` or `inode` |
//! | `FUNCTION` | a [`Function`] of the cache, with or without the name of the cache; `larder`, the default function; or `rbtree` for pages |
//! | `SIZE` | the log2 of the number of buckets, or a `RULE`; without `/SIZE`, the size of the set is used |
//! | `RULE` | a rule for the number of buckets, described in [`TableSize`]: `larder`, `2.2.16` or `today` |
//! | `iget` | the lookups of inodes that use the table of inodes: `misses` or `all` ([`InodeLookups`]) |
//! | `shrink` | when dentries are scanned for eviction, and how many of them: `normal` or `eager` ([`Shrinking`]) |
//!
//! With `iget=misses`, a lookup of an inode uses the table only if the inode has no valid reference, for example in the
//! first lookup after each miss in the dentry cache.
//!
//! ```
//! # use larder_cache::tables::Tables;
//! let tables: Tables = "D+page=rbtree+dentry=mult-11/14+shrink=eager".parse().unwrap();
//! # assert_eq!(tables.to_string().parse(), Ok(tables));
//! ```
//!
//! # Flooding
//! Only the default function of dentries has a random seed. With any other function, the author of an image
//! can choose names that all share a bucket. Each lookup then walks all of them. Inode numbers and block
//! numbers that share a bucket can be chosen with any function, but an image with many of them must be large.
//! Do not open untrusted images with published functions.

mod choice;
mod parse;
mod size;
mod table_hash;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use crate::hash::Function;
pub use crate::table::TreeDepths;
pub use choice::{Base, Finder, InodeLookups, Pages, Shrinking, TableChoice, Tables};
pub use parse::UnknownTables;
pub(crate) use size::Memory;
pub use size::TableSize;
pub(crate) use table_hash::TableHash;
