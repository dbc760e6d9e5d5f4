//! The choice of tables: hash functions, numbers of buckets, and the way in which dentries are
//! shrunk.
//!
//! # Model
//! The kernels that Lever measured, by name (Lever 2000, section 4), and replacements for each of
//! their tables. A volume is opened with one of them:
//!
//! ```text
//! BASE[+CACHE=FUNCTION[/SIZE]]...[+sizes=RULE][+shrink=normal|eager]
//! ```
//!
//! | | one of |
//! |---|---|
//! | `BASE` | `larder` (Larder's own, and the default), `reference`, `A`, `B`, `C`, `D` |
//! | `CACHE` | `page`, `buffer`, `dentry`, `inode` |
//! | `FUNCTION` | a [`Function`] of the cache, with or without the cache's name; `larder`; for pages, `rbtree` |
//! | `SIZE` | 2^`SIZE` buckets, or a `RULE`; by default, unchanged |
//! | `RULE` | `larder`, `2.2.16`, `today`: [`TableSize`] |
//!
//! ```
//! # use larder_cache::tables::Tables;
//! let tables: Tables = "D+page=rbtree+dentry=mult-11/14+shrink=eager".parse().unwrap();
//! # assert_eq!(tables.to_string().parse(), Ok(tables));
//! ```
//!
//! # Flooding
//! Only Larder's own function of dentries has a seed. With any other, an image can be made whose
//! names all share a bucket. Each lookup then walks all of them, up to as many as the cache holds.
//! With any function, inode numbers and blocks can be chosen in the same way, but an image that has
//! many of them must be large. Do not open untrusted images with published functions.

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
