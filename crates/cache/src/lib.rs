//! The kernel's caches in user space: page, buffer, dentry and inode cache, and the cache of shared
//! attributes, on one chained hash table and one memory budget.
//!
//! | cache | finds | by | a hit |
//! |---|---|---|---|
//! | [`page`] | a page of a file | inode, index | pins the page |
//! | [`buffer`] | a block of metadata | block | pins its frame |
//! | [`dentry`] | the inode of a name | directory, name | copies it |
//! | [`inode`] | a raw inode | inode number | copies it |
//! | [`mbcache`] | a block or inode with equal attributes | their hash | pins the entry |
//!
//! No hit takes a lock, except for attributes in the published variants of `mbcache`, and for pages in
//! red-black trees ([`research`]). [`table`] describes how that works. [`page`] describes the memory that
//! pages and buffers share, [`budget`] and [`shrink`] how all of it stays within the memory limit, and
//! [`tables`] the hash functions and sizes of the tables. [`hash`] contains the named hash functions.
//! [`tape`] reports the operations of the tables. [`Caches`] creates all of them together.

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
