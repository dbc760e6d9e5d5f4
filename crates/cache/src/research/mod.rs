//! Alternatives to the implementations that a mount uses by default, for comparison. They are published,
//! superseded or experimental designs.
//!
//! | module | replaces | option | trait that it implements |
//! |---|---|---|---|
//! | [`page_trees`] | the page hash | `-o tables=...+page=rbtree` | `PageIndex` in `page/index.rs` |
//! | `mbcache::old`, `mbcache::clock` | `mbcache/rewrite/` | `-o mbcache=old`, `clock` | [`MbCache`](crate::mbcache::MbCache) |
//! | `mbcache::lru` | `mbcache/rewrite/order.rs` | `-o mbcache=lru`, `list-lru` | `Order` in that file |
//!
//! The rest of the crate uses the alternatives through these traits. It names them only in
//! [`Caches::new`](crate::Caches::new) and `mbcache/build.rs`, which create the caches, and in `budget.rs`.

pub(crate) mod mbcache;
pub mod page_trees;
