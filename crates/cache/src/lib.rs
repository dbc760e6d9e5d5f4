//! The kernel's caches in user space: the page, buffer, dentry and inode caches, and the caches of shared
//! attributes. All use the same implementation of a chained hash table, and share one memory budget.
//!
//! | cache | finds | by | effect of a hit |
//! |---|---|---|---|
//! | [`page`] | a page of a file | inode number, index | pins the page |
//! | [`buffer`] | a block of metadata | block number | pins the frame of the block |
//! | [`dentry`] | the inode of a name | directory, name | copies the inode number |
//! | [`inode`] | a raw inode | inode number | copies the raw inode |
//! | [`mbcache`] | a block or inode with equal attributes | hash of the attributes | holds the entry |
//!
//! A hit takes no lock, except in these cases:
//! - a block of metadata, while any block is dirty: the lookup locks a part of the set of dirty blocks;
//! - a page in red-black trees ([`research`]);
//! - an entry of `mbcache`, unless the variant is `clock` and the search is by key.
//!
//! [`table`] describes lookups without a lock. [`page`] describes the memory that pages and buffers share.
//! [`budget`] and [`shrink`] describe how the caches stay within the memory budget. [`tables`] describes the
//! choice of hash functions and table sizes, and [`hash`] contains the functions. [`tape`] is the interface
//! through which the tables report their operations. [`Caches`] creates all caches of a volume.
//!
//! ```
//! use larder_block::MemoryDevice;
//! use larder_cache::Caches;
//! use larder_cache::budget::BudgetConfig;
//! use larder_cache::page::{Entry, PageKey};
//!
//! let device = MemoryDevice::new(vec![0; 1 << 20]);
//! let caches: Caches = Caches::new(&BudgetConfig::new(16 << 20, 4096), std::sync::Arc::new(device))?;
//! let key = PageKey { ino: 12, index: 0 };
//! assert!(caches.pages.get(key).is_none());
//! if let Entry::New(mut page) = caches.pages.get_or_insert(key) {
//!     page.fill(7);
//!     page.complete();
//! }
//! assert_eq!(caches.pages.get(key).unwrap()[0], 7);
//! # Ok::<(), larder_cache::Error>(())
//! ```

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
pub use thread_number::Uncounted;
