//! Attributes that files share, because their contents are equal.
//!
//! # Model
//! `ext4_xattr_block_cache_find` and `ext4_xattr_inode_cache_find`. What mbcache finds is a hint:
//! here its contents are compared, byte by byte, and its users counted.

use larder_cache::mbcache::AttributeCaches;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What finds equal contents, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    pub(crate) caches: Arc<AttributeCaches>,
    shares: AtomicU64,
    saved_bytes: AtomicU64,
}

/// What sharing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// Files that were given a block, and entries that were given an inode, that was there already.
    pub shares: u64,
    /// Space that these would have taken, in bytes.
    pub saved_bytes: u64,
}

impl Sharing {
    pub(crate) fn new(caches: Arc<AttributeCaches>) -> Self {
        Self {
            caches,
            ..Self::default()
        }
    }

    pub(crate) fn counts(&self) -> ShareCounts {
        ShareCounts {
            shares: self.shares.load(Relaxed),
            saved_bytes: self.saved_bytes.load(Relaxed),
        }
    }
}
