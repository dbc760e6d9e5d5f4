//! Tables: which hash functions the caches have, how many buckets, and how dentries are shrunk.
//!
//! # Model
//! The kernels that Lever measured, by name (Lever 2000, section 4), and what any of their tables
//! could be replaced by. A volume is opened with one of them:
//!
//! ```text
//! BASE[+CACHE=FUNCTION[/SIZE]]...[+sizes=RULE][+shrink=normal|eager]
//! ```
//!
//! | | one of |
//! |---|---|
//! | `BASE` | `larder` (ours, and what is meant if it is left out), `reference`, `A`, `B`, `C`, `D` |
//! | `CACHE` | `page`, `buffer`, `dentry`, `inode` |
//! | `FUNCTION` | a [`Function`] of the cache, with or without the cache's name; `larder`; for pages, `rbtree` |
//! | `SIZE` | 2^`SIZE` buckets, or a `RULE`; left out, as before |
//! | `RULE` | `larder`, `2.2.16`, `today`: [`TableSize`] |
//!
//! ```
//! # use larder_cache::tables::Tables;
//! let tables: Tables = "D+page=rbtree+dentry=mult-11/14+shrink=eager".parse().unwrap();
//! # assert_eq!(tables.to_string().parse(), Ok(tables));
//! ```
//!
//! # Flooding
//! Only our own function of dentries has a seed. By any other, an image can be made whose names all
//! share a bucket, and each lookup then walks all of them, up to as many as the cache holds. So can,
//! by any function, inode numbers and blocks be chosen, but an image that has many of them is
//! as large. Do not open images of strangers with published functions.

mod choice;
mod parse;
mod size;
mod table_hash;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use crate::hash::Function;
pub use crate::table::TreeDepths;
pub use choice::{Base, Finder, Pages, Shrinking, TableChoice, Tables};
pub use parse::UnknownTables;
pub(crate) use size::Memory;
pub use size::TableSize;
pub(crate) use table_hash::TableHash;
