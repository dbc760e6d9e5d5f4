//! The kernel's caches in user space: page, buffer, dentry and inode cache, and the one of shared
//! attributes, on one chained hash table and one memory budget.
//!
//! | cache | finds | by | a hit |
//! |---|---|---|---|
//! | [`page`] | a page of a file | inode, index | pins the page |
//! | [`buffer`] | a block of metadata | block | pins its frame |
//! | [`dentry`] | what a name stands for | directory, name | copies it |
//! | [`inode`] | a raw inode | inode number | copies it |
//! | [`mbcache`] | who has the same attributes | their hash | pins the entry |
//!
//! No hit takes a lock, except of attributes by the published variants of `mbcache`, and of pages in
//! red-black trees ([`research`]). [`table`] describes how that works, [`page`] the memory that pages and
//! buffers share, [`budget`] and [`shrink`] how all of it stays within a given memory, and [`tables`] which
//! hash functions and sizes the tables have. [`hash`] names hash functions,
//! [`tape`] tells what the tables are asked.
//! [`Caches`] makes all of them together.

pub mod budget;
pub mod buffer;
mod caches;
pub mod dentry;
pub mod hash;
pub mod inode;
pub mod mbcache;
mod memory;
pub mod number_hash;
pub mod page;
pub mod research;
pub mod shrink;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod stats;
pub mod sync;
pub mod table;
pub mod tables;
pub mod tape;
mod thread_number;
mod wait;

pub use caches::{Caches, Error};
pub use stats::CacheStats;
