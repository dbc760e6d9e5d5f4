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
//! No hit takes a lock, but in variants of `mbcache` and in red-black trees of pages, which are there to compare; [`tables`] says
//! which those are, and which functions and sizes tables have. [`table`] says how that works, [`page`] where pages and
//! buffers live, [`budget`] how all of it stays within a given memory. [`hash`] names hash functions,
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
pub mod page_trees;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod stats;
mod sync;
pub mod table;
pub mod tables;
pub mod tape;
mod wait;

pub use caches::{Caches, Error};
pub use stats::CacheStats;
