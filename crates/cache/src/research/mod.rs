//! Alternatives to the defaults of a mount, for comparison: published, superseded, or experimental.
//!
//! | module | replaces | option | seam |
//! |---|---|---|---|
//! | [`page_trees`] | the page hash | `-o tables=...+page=rbtree` | `PageIndex` in `page/index.rs` |
//! | `mbcache::old`, `mbcache::clock` | `mbcache/rewrite/` | `-o mbcache=old`, `clock` | [`MbCache`](crate::mbcache::MbCache) |
//! | `mbcache::lru` | `mbcache/rewrite/order.rs` | `-o mbcache=lru`, `list-lru` | `Order` in that file |
//!
//! Each implements a trait of the product code, which does not depend on it. Two places name these
//! modules: [`Caches::new`](crate::Caches::new) and `mbcache/build.rs`.

pub(crate) mod mbcache;
pub mod page_trees;
