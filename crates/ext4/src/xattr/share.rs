//! Sharing of attributes with equal contents among files.
//!
//! # Model
//! `ext4_xattr_block_cache_find` and `ext4_xattr_inode_cache_find`. A result of mbcache is a hint: the
//! caller compares the contents byte by byte, and increments the reference count.
//!
//! # Invariants
//! 1. An entry refers to an attribute block, or to an inode that holds a value. That has at least one user,
//!    or had one before a handle that is open.
//! 2. Its key is the hash that the block, or the inode, has on the image.
//!
//! # Locking
//! A thread with an open handle may wait for the holders of an entry, if it holds none itself. Only one
//! handle is open at a time, so these holders are not searches. They are offers of contents that were read,
//! which hold an entry until it is in its list, and shrinkers, which hold one while they move it. Neither
//! waits for anything meanwhile.
//!
//! A reader of attributes offers their contents while it has the inode's lock in shared mode
//! ([`XattrOffer::UnderLock`]). The lock guarantees that the inode remains a user of them.

use crate::Result;
use crate::ondisk::superblock::Superblock;
use crate::ondisk::xattr::UserCount;
use larder_cache::mbcache::{AttributeCaches, Deletion, MbCache};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximum number of different contents with which new ones are compared. Hashes are easily forged.
/// This limits the cost of a change even if all contents have the same hash.
const MAX_DIFFERENT: usize = 16;

/// The caches that find equal contents, and the counts of shares.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    caches: Arc<AttributeCaches>,
    pub(super) users: UserCount,
    cluster_bytes: u64,
    shares: AtomicU64,
    saved_clusters: AtomicU64,
}

/// The results of sharing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// The number of times that a file got an existing block, or an entry an existing inode.
    pub shares: u64,
    /// The space saved by the shares that still exist, in bytes. When a user leaves shared contents, this
    /// decreases by its part, but not below 0.
    pub saved_bytes: u64,
}

/// Whether the contents that are read of an inode's attributes are offered for sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrOffer {
    /// They are not offered.
    Nothing,
    /// They are offered. The caller has the inode's lock, so that the inode remains a user of the contents,
    /// and no open handle has changed its attributes.
    UnderLock,
}

/// The kind of cache: for blocks or for value inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Blocks,
    Inodes,
}

/// The changes that a handle makes to the caches when it stops. If it is dropped, they are discarded.
#[derive(Debug, Default)]
pub(crate) struct SharingChanges {
    /// New contents: the cache, the hash, and the block or inode.
    offers: Vec<(Store, u32, u64)>,
    shares: u64,
    saved_clusters: i64,
}

/// The result of examining a candidate.
pub(super) enum Candidate<R> {
    /// Its contents are different.
    Different,
    /// It has the maximum number of users.
    Full,
    /// The caller was added to its users.
    Taken(R),
}

impl SharingChanges {
    /// Offers the contents of `value`, which this handle has created or changed. `hash` is their hash.
    pub(super) fn offer(&mut self, store: Store, hash: u32, value: u64) {
        self.offers.push((store, hash, value));
    }

    /// Withdraws the offer of `value`.
    fn withdraw(&mut self, store: Store, value: u64) {
        self.offers
            .retain(|&(of, _, offered)| (of, offered) != (store, value));
    }

    /// Counts one use of existing contents.
    pub(super) fn count_share(&mut self) {
        self.shares += 1;
    }

    /// Adds `clusters`, which may be negative, to the space that users other than the first save.
    pub(super) fn count_saved(&mut self, clusters: i64) {
        self.saved_clusters = self.saved_clusters.saturating_add(clusters);
    }
}

impl Sharing {
    /// Creates the state for the attributes of the file system of `sb`.
    pub(crate) fn new(caches: Arc<AttributeCaches>, sb: &Superblock) -> Self {
        let users = if sb.has_metadata_checksums() {
            UserCount::new(sb.block_size_bytes() as usize)
        } else {
            UserCount::default()
        };
        Self {
            caches,
            users,
            cluster_bytes: sb.cluster_size_bytes(),
            ..Self::default()
        }
    }

    pub(crate) fn counts(&self) -> ShareCounts {
        ShareCounts {
            shares: self.shares.load(Relaxed),
            saved_bytes: self.saved_clusters.load(Relaxed) * self.cluster_bytes,
        }
    }

    fn cache(&self, store: Store) -> &dyn MbCache {
        match store {
            Store::Blocks => &*self.caches.blocks,
            Store::Inodes => &*self.caches.inodes,
        }
    }

    /// Applies `changes` when their handle stops.
    pub(crate) fn keep(&self, changes: &mut SharingChanges) {
        for (store, hash, value) in changes.offers.drain(..) {
            self.offer(store, hash, value);
        }
        let shares = std::mem::take(&mut changes.shares);
        if shares > 0 {
            self.shares.fetch_add(shares, Relaxed);
        }
        let more = std::mem::take(&mut changes.saved_clusters);
        if more != 0 {
            self.saved_clusters
                .update(Relaxed, Relaxed, |saved| saved.saturating_add_signed(more));
        }
    }

    /// Offers the contents of `value`, with this `hash`, for sharing. A search detects if `value` is full.
    /// An entry that was marked as full stays so.
    pub(super) fn offer(&self, store: Store, hash: u32, value: u64) {
        self.cache(store).insert(hash, value, true);
    }

    /// Offers `value` again: it was full, and now has room for another user.
    pub(super) fn offer_again(&self, store: Store, hash: u32, value: u64) {
        match self.cache(store).get(hash, value) {
            Some(held) => held.set_reusable(true),
            None => self.offer(store, hash, value),
        }
    }

    /// Withdraws `value` before the handle of `changes` frees or changes it. Waits until its entry is not
    /// in use.
    pub(super) fn withdraw(
        &self,
        changes: &mut SharingChanges,
        store: Store,
        hash: u32,
        value: u64,
    ) {
        changes.withdraw(store, value);
        while let Deletion::InUse(held) = self.cache(store).delete_or_get(hash, value) {
            held.wait_unused();
        }
    }

    /// Calls `take` with each candidate that has this `hash`, until it takes one. The caller's handle must
    /// not have changed any of them: a candidate that is full is then also full if the handle is undone,
    /// and later searches skip it.
    pub(super) fn find<R>(
        &self,
        store: Store,
        hash: u32,
        mut take: impl FnMut(u64) -> Result<Candidate<R>>,
    ) -> Result<Option<R>> {
        let cache = self.cache(store);
        let mut next = cache.find_first(hash);
        let mut different = 0;
        while let Some(held) = next
            && different < MAX_DIFFERENT
        {
            match take(held.value())? {
                Candidate::Different => different += 1,
                Candidate::Full => held.set_reusable(false),
                Candidate::Taken(taken) => {
                    held.touch();
                    return Ok(Some(taken));
                }
            }
            next = cache.find_next(held);
        }
        Ok(None)
    }
}
