//! Attributes that files share, because their contents are equal.
//!
//! # Model
//! `ext4_xattr_block_cache_find` and `ext4_xattr_inode_cache_find`. What mbcache finds is a hint:
//! who asked compares its contents, byte by byte, and counts its users.
//!
//! # Invariants
//! 1. An entry leads to an attribute block, or to an inode that holds a value, which has at least
//!    one user, or had before a handle that is open.
//! 2. Its key is the hash that the block, or the inode, has on the image.
//!
//! # Locking
//! Who has a handle, and holds no entry himself, waits for those who hold one. One handle is open at a
//! time, so that these are not searches: they are offers of what is read, which hold an entry until it
//! is listed, and shrinkers, which hold one while it moves. Neither waits for anything meanwhile.
//!
//! Who reads attributes offers what he has seen with the inode's lock shared, by which that inode
//! stays a user, and says so ([`XattrOffer::UnderLock`]).

use crate::Result;
use crate::ondisk::superblock::Superblock;
use crate::ondisk::xattr::UserCount;
use larder_cache::mbcache::{AttributeCaches, Deleted, MbCache};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// With how many other contents new ones are compared, at most. Hashes are easily forged: with
/// contents that all have one hash, a change costs no more than this.
const MOST_DIFFERENT: usize = 16;

/// What finds equal contents, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    caches: Arc<AttributeCaches>,
    pub(super) users: UserCount,
    cluster_bytes: u64,
    shares: AtomicU64,
    saved_clusters: AtomicU64,
}

/// What sharing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// Files that were given a block, and entries that were given an inode, that was there already.
    pub shares: u64,
    /// Space that these would take, as far as they still share, in bytes. Who leaves what was shared before
    /// takes as much off, down to 0.
    pub saved_bytes: u64,
}

/// Whether others may find, and share, what is read of an inode's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrOffer {
    /// They are not told of it.
    Nothing,
    /// What is read is offered to them. The caller has the inode's lock, so that the inode stays a user of
    /// what is read, and no open handle has changed its attributes.
    UnderLock,
}

/// One of the two caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Blocks,
    Inodes,
}

/// What a handle is to tell the caches when it stops: dropped, it leaves nothing there.
#[derive(Debug, Default)]
pub(crate) struct SharingChanges {
    /// Contents that are new: where, their hash, the block or inode.
    offers: Vec<(Store, u32, u64)>,
    shares: u64,
    saved_clusters: i64,
}

/// What became of a candidate.
pub(super) enum Candidate<R> {
    /// Its contents are others.
    Different,
    /// It has as many users as it can have.
    Full,
    /// It has one user more now.
    Taken(R),
}

impl SharingChanges {
    /// Contents with that `hash` are in `value`, which is new, or has them since this handle.
    pub(super) fn offer(&mut self, store: Store, hash: u32, value: u64) {
        self.offers.push((store, hash, value));
    }

    /// What is in `value` is there no more.
    fn withdraw(&mut self, store: Store, value: u64) {
        self.offers
            .retain(|&(of, _, offered)| (of, offered) != (store, value));
    }

    /// Somebody was given what was there.
    pub(super) fn count_share(&mut self) {
        self.shares += 1;
    }

    /// Users beyond the first save `clusters` more, or fewer.
    pub(super) fn count_saved(&mut self, clusters: i64) {
        self.saved_clusters = self.saved_clusters.saturating_add(clusters);
    }
}

impl Sharing {
    /// Of the attributes of the file system of `sb`.
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

    /// The handle that made `changes` stops.
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

    /// Contents with that `hash` are in `value`, for others too. Should it be full, who finds it sees
    /// that; what was found to be full stays so.
    pub(super) fn offer(&self, store: Store, hash: u32, value: u64) {
        self.cache(store).insert(hash, value, true);
    }

    /// `value`, which was full, has room for another user.
    pub(super) fn offer_again(&self, store: Store, hash: u32, value: u64) {
        match self.cache(store).get(hash, value) {
            Some(held) => held.set_reusable(true),
            None => self.offer(store, hash, value),
        }
    }

    /// `value` is about to be freed, or to become something else, by the handle of `changes`.
    pub(super) fn withdraw(
        &self,
        changes: &mut SharingChanges,
        store: Store,
        hash: u32,
        value: u64,
    ) {
        changes.withdraw(store, value);
        while let Deleted::InUse(held) = self.cache(store).delete_or_get(hash, value) {
            held.wait_unused();
        }
    }

    /// Has `take` look at what may have contents with that `hash`, until it takes one. Under a
    /// handle that has changed none of them: what is full then is full if the handle is undone too,
    /// and is passed by from now on.
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
            && different < MOST_DIFFERENT
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
