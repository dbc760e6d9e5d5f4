//! Sharing of attributes with equal contents among files.
//!
//! # Model
//! `ext4_xattr_block_cache_find` and `ext4_xattr_inode_cache_find`. A result of a cache (mbcache)
//! is only a hint: the caller must compare the contents byte by byte before it increments the
//! reference count.
//!
//! # Invariants
//! 1. An entry of a cache refers to an attribute block or to a value inode. The block or inode has
//!    at least one user, or had one before the currently open handle changed it.
//! 2. The key of an entry is the hash that is stored in the block or the inode on the image.
//!
//! # Locking
//! A thread with an open handle may wait until an entry is no longer in use, if the thread itself
//! uses no entry. There is no deadlock, because no other user of an entry waits for anything.
//! Searches need the open handle, so no other thread searches meanwhile. Offers of contents use an
//! entry while they insert it into the cache's list, and shrinkers use an entry while they move it.
//!
//! A reader of attributes offers their contents while it holds the inode's lock in shared mode
//! ([`XattrOffer::UnderLock`]). The lock guarantees that the inode remains a user of the contents.

use crate::Result;
use crate::ondisk::superblock::Superblock;
use crate::ondisk::xattr::UserCount;
use larder_cache::mbcache::{AttributeCaches, Deletion, MbCache};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximum number of candidates with which new contents are compared. It limits the cost of a
/// change if an attacker creates many contents with the same hash.
const MAX_DIFFERENT: usize = 16;

/// The caches that find equal contents, and the statistics of sharing.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    caches: Arc<AttributeCaches>,
    /// Whether later searches examine candidates with the maximum number of users again. If so, these
    /// candidates are not marked as full.
    examines_full: bool,
    pub(super) users: UserCount,
    cluster_bytes: u64,
    shares: AtomicU64,
    saved_clusters: AtomicU64,
}

/// The results of sharing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// The number of times that an existing block or value inode was used instead of a new one.
    pub shares: u64,
    /// The space in bytes that sharing currently saves. It decreases when a file stops using shared
    /// contents, but not below 0.
    pub saved_bytes: u64,
}

/// Whether the attribute contents that a reader reads are offered for sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrOffer {
    /// The contents are not offered.
    Nothing,
    /// The contents are offered. The caller must hold the inode's lock, so that the inode remains a
    /// user of the contents and no open handle has changed its attributes.
    UnderLock,
}

/// The kind of cache: for blocks or for value inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Blocks,
    Inodes,
}

/// The changes that a handle makes to the caches. New entries are added when the handle stops.
/// Entries that the handle deleted are restored if it is dropped.
#[derive(Debug, Default)]
pub(crate) struct SharingChanges {
    /// New contents: the cache, the hash, and the block or inode.
    offers: Vec<(Store, u32, u64)>,
    /// Contents whose entry was deleted: the cache, the hash, and the block or inode.
    withdrawn: Vec<(Store, u32, u64)>,
    shares: u64,
    saved_clusters: i64,
}

/// The result of examining a candidate.
pub(super) enum Candidate<R> {
    /// The candidate has different contents.
    Different,
    /// The candidate has the maximum number of users.
    Full,
    /// The caller was added to the users of the candidate.
    Taken(R),
}

impl SharingChanges {
    /// Offers the contents of `value`, which the handle has created or changed and whose hash is
    /// `hash`.
    pub(super) fn offer(&mut self, store: Store, hash: u32, value: u64) {
        self.offers.push((store, hash, value));
    }

    /// Withdraws the offer of `value` that this handle made.
    fn withdraw(&mut self, store: Store, value: u64) {
        self.offers
            .retain(|&(of, _, offered)| (of, offered) != (store, value));
    }

    /// Counts one more use of existing contents.
    pub(super) fn count_share(&mut self) {
        self.shares += 1;
    }

    /// Adds `clusters`, which may be negative, to the space that sharing saves.
    pub(super) fn count_saved(&mut self, clusters: i64) {
        self.saved_clusters = self.saved_clusters.saturating_add(clusters);
    }
}

impl Sharing {
    /// Creates the state of attribute sharing for the file system with the superblock `sb`. With
    /// `examines_full`, candidates with the maximum number of users are not marked as full.
    pub(crate) fn new(caches: Arc<AttributeCaches>, examines_full: bool, sb: &Superblock) -> Self {
        let users = if sb.has_metadata_checksums() {
            UserCount::new(sb.block_size_bytes() as usize)
        } else {
            UserCount::default()
        };
        Self {
            caches,
            examines_full,
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

    /// Applies the `changes` of a handle that stops.
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

    /// Undoes the `changes` of a handle that is undone. Contents that the handle withdrew are
    /// offered again, because they are as before.
    pub(crate) fn undo(&self, changes: &mut SharingChanges) {
        for (store, hash, value) in changes.withdrawn.drain(..) {
            self.offer(store, hash, value);
        }
    }

    /// Offers the contents of `value`, whose hash is `hash`, for sharing. An entry that is marked
    /// as full stays marked. If `value` already has the maximum number of users, a search detects
    /// this.
    pub(super) fn offer(&self, store: Store, hash: u32, value: u64) {
        self.cache(store).insert(hash, value, true);
    }

    /// Removes the mark that `value` is full, because it can have another user now.
    pub(super) fn offer_again(&self, store: Store, hash: u32, value: u64) {
        match self.cache(store).get(hash, value) {
            Some(held) => held.set_reusable(true),
            None => self.offer(store, hash, value),
        }
    }

    /// Withdraws `value` from the cache. Must be called before the handle of `changes` frees or
    /// changes the contents. Waits until the entry is not in use.
    pub(super) fn withdraw(
        &self,
        changes: &mut SharingChanges,
        store: Store,
        hash: u32,
        value: u64,
    ) {
        changes.withdraw(store, value);
        if self.cache(store).get(hash, value).is_some() {
            changes.withdrawn.push((store, hash, value));
        }
        while let Deletion::InUse(held) = self.cache(store).delete_or_get(hash, value) {
            held.wait_unused();
        }
    }

    /// Calls `take` with each candidate that has this `hash`, until `take` accepts a candidate.
    /// Marks candidates with the maximum number of users, so that later searches skip them, unless
    /// `examines_full` is set. The caller's handle must not have changed the candidates, so that
    /// these marks stay correct if the handle is undone.
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
                Candidate::Full if self.examines_full => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use larder_cache::mbcache::{Config, Variant, build};
    use larder_cache::table::Growth;

    #[test]
    fn full_candidates_are_examined_once_unless_searches_examine_them() {
        for (examines_full, again) in [(false, 0), (true, 2)] {
            let config = Config::new(Variant::Referenced, 64);
            let cache = build(Variant::Referenced, config, Growth::Prepaid, ()).unwrap();
            let sharing = Sharing {
                caches: Arc::new(AttributeCaches {
                    blocks: Arc::from(cache),
                    ..AttributeCaches::default()
                }),
                examines_full,
                ..Sharing::default()
            };
            for block in [1, 2] {
                sharing.offer(Store::Blocks, 7, block);
            }
            let search = || {
                let mut examined = 0;
                let found = sharing.find(Store::Blocks, 7, |_| {
                    examined += 1;
                    Ok(Candidate::<()>::Full)
                });
                assert!(found.unwrap().is_none());
                examined
            };
            assert_eq!((search(), search()), (2, again));
        }
    }
}
