//! Alternatives to the implementations that a mount uses by default, for comparison. They are published,
//! superseded or experimental designs.
//!
//! | module | replaces | option | trait that it implements |
//! |---|---|---|---|
//! | [`page_trees`] | the page hash | `-o tables=...+page=rbtree` | `PageIndex` in `page/index.rs` |
//! | `hash` | the default hash functions | `-o tables=` | [`HashFunction`](crate::table::HashFunction) |
//! | `mbcache::old`, `mbcache::clock` | `mbcache/rewrite/` | `-o mbcache=old`, `clock` | [`MbCache`](crate::mbcache::MbCache) |
//! | `mbcache::lru` | `mbcache/rewrite/order.rs` | `-o mbcache=lru`, `list-lru` | `Order` in that file |
//!
//! The rest of the crate uses the alternatives through these traits. Three places name the search structures
//! and the variants of mbcache: [`Caches::new`](crate::Caches::new) and `mbcache/build.rs`, which create the
//! caches, and `budget.rs`. All named hash functions are values of one type,
//! [`Function`](crate::hash::Function): `tables/choice.rs` has the choices of the published kernels, and
//! `tables/table_hash.rs` calls the functions.
//!
//! Some code that serves only the alternatives is in the modules that choose tables and report on them:
//! - `tables/` has the names and the published combinations of tables, and their parser.
//! - `table/tree_depths.rs` and a part of `table/histogram.rs` report depths in trees instead of chain lengths.
//! - `dentry/name_hash.rs` computes the hash of a name, which is an input of the published functions of dentries.
//!   A recording of any mount uses this hash, too.

pub(crate) mod hash;
pub(crate) mod mbcache;
pub mod page_trees;
