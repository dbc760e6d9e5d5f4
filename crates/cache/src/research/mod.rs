//! Alternatives to what a mount uses by default, to be compared with it: published, superseded, or
//! our own attempts.
//!
//! | module | in place of | chosen by | seam |
//! |---|---|---|---|
//! | [`page_trees`] | the page hash | `-o tables=...+page=rbtree` | `PageIndex` in `page/index.rs` |
//! | `mbcache::old`, `mbcache::clock` | `mbcache/rewrite/` | `-o mbcache=old`, `clock` | [`MbCache`](crate::mbcache::MbCache) |
//! | `mbcache::lru` | `mbcache/rewrite/order.rs` | `-o mbcache=lru`, `list-lru` | `Order` in that file |
//!
//! Each implements a trait of the product code, which does not know it. Two places name these
//! modules: [`Caches::new`](crate::Caches::new) and `mbcache/build.rs`.

pub(crate) mod mbcache;
pub mod page_trees;
