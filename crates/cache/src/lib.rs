//! The kernel's caches in user space: page, buffer, dentry and inode cache on
//! one chained hash table and one memory budget.
//!
//! | cache | finds | by | a hit |
//! |---|---|---|---|
//! | [`page`] | a page of a file | inode, index | pins the page |
//! | [`buffer`] | a block of metadata | block | pins its frame |
//! | [`dentry`] | what a name stands for | directory, name | copies it |
//! | [`inode`] | a raw inode | inode number | copies it |
//!
//! No hit takes a lock. [`table`] says how that works, [`frame`] where pages and
//! buffers live, [`budget`] how all of it stays within a given memory.
//! [`Caches`] makes the four together.

pub mod budget;
pub mod buffer;
mod caches;
pub mod dentry;
pub mod frame;
pub mod inode;
pub mod mbcache;
mod memory;
pub mod number_hash;
pub mod page;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod stats;
mod sync;
pub mod table;
mod wait;

pub use caches::{Caches, Error};
pub use stats::CacheStats;
