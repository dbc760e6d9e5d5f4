//! Decides when the kernel reads a directory again although its cache contains the listing.
//!
//! Model: with the write-back cache, the kernel discards the number of blocks of a file at each close(2), even if the
//! file was only read. The next stat(2) of the file then sends a request. If the program lists the directory first, the
//! replies to `READDIRPLUS` contain the attributes of all its files, so a few requests replace one request for each
//! file. The kernel sends `READDIRPLUS` only if its cache does not contain the listing, and it discards a cached
//! listing if the reply to `OPENDIR` lacks [`abi::OPEN_KEEP_CACHE`]. The server leaves out this flag if content was
//! read or changed since the kernel last received the listing.
//!
//! Time is divided into periods. A request for content ends the current period, and the next `OPENDIR` begins
//! another. The handle of an open directory is the period in which it was opened. A slot contains a directory and the
//! handle with which it was listed completely.
//!
//! Invariants:
//! 1. The slot of a directory is empty from the first request of a listing until the last one, unless several programs
//!    list the directory at the same time. While the slot is empty, the reply to `OPENDIR` contains the flag, so that
//!    the kernel keeps the start of the listing: Linux cannot complete a cached listing if the pages at its start were
//!    discarded.
//!
//! Locking: none. The order of atomic operations is relaxed. Concurrent updates can cause unnecessary requests, but
//! no wrong replies: the kernel knows which of its attributes are valid.
//!
//! Cost: 8 bytes for each slot, 64 KiB in total. A request for content reads a flag, and sets it once in each period.
//! A directory replaces another one in its slot. The listing of the replaced directory is then not discarded.

use crate::node::NodeId;
use crate::protocol::abi;
use larder::Ino;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The number of bits of the index of a slot.
const SLOT_BITS: u32 = 13;

/// The directories that the kernel has listed.
#[derive(Debug)]
pub(super) struct Listings {
    /// Whether content was requested in the current period.
    is_content_requested: AtomicBool,
    /// The number of the current period.
    period: AtomicU32,
    /// The inode number of a directory in the high 32 bits, and the period in the low 32 bits. The value 0 is an empty
    /// slot.
    slots: Box<[AtomicU64]>,
}

impl Listings {
    pub(super) fn new() -> Self {
        Self {
            is_content_requested: AtomicBool::new(false),
            period: AtomicU32::new(0),
            slots: (0..1 << SLOT_BITS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Records a request that reads or changes the content of a file.
    pub(super) fn request_content(&self) {
        // Without a write, the cache line of the flag stays in the caches of all processors.
        if !self.is_content_requested.load(Relaxed) {
            self.is_content_requested.store(true, Relaxed);
        }
    }

    /// Returns the handle and the flags for the reply to `OPENDIR`.
    pub(super) fn open(&self, node: NodeId) -> (u64, u32) {
        if self.is_content_requested.swap(false, Relaxed) {
            self.period.fetch_add(1, Relaxed);
        }
        let handle = u64::from(self.period.load(Relaxed));
        let is_old = node.ino().is_some_and(|ino| {
            self.slot(ino).is_some_and(|slot| {
                let listed = slot.load(Relaxed);
                is_of(listed, ino)
                    && listed != packed(ino, handle)
                    && slot.compare_exchange(listed, 0, Relaxed, Relaxed).is_ok()
            })
        });
        let flags = if is_old {
            abi::OPEN_CACHE_DIR
        } else {
            abi::OPEN_CACHE_DIR | abi::OPEN_KEEP_CACHE
        };
        (handle, flags)
    }

    /// Records that the kernel reads a directory from the start.
    pub(super) fn begin(&self, node: NodeId) {
        if let Some(ino) = node.ino()
            && let Some(slot) = self.slot(ino)
        {
            let listed = slot.load(Relaxed);
            if is_of(listed, ino) {
                let _ = slot.compare_exchange(listed, 0, Relaxed, Relaxed);
            }
        }
    }

    /// Records that the kernel has read a directory, which was opened with `handle`, to the end.
    pub(super) fn end(&self, node: NodeId, handle: u64) {
        if let Some(ino) = node.ino()
            && let Some(slot) = self.slot(ino)
        {
            slot.store(packed(ino, handle), Relaxed);
        }
    }

    /// Returns the slot of a directory. The number of inodes of a block group is a power of two in most images, so the
    /// low bits of the inode numbers of directories are often equal. Therefore the index depends on all bits.
    fn slot(&self, ino: Ino) -> Option<&AtomicU64> {
        let hash = ino.0.wrapping_mul(0x9e37_79b1);
        self.slots.get((hash >> (u32::BITS - SLOT_BITS)) as usize)
    }
}

/// Returns the value of the slot of a directory that was listed with `handle`.
fn packed(ino: Ino, handle: u64) -> u64 {
    u64::from(ino.0) << 32 | (handle & u64::from(u32::MAX))
}

/// Returns whether a slot with the value `listed` contains `ino`.
fn is_of(listed: u64, ino: Ino) -> bool {
    listed >> 32 == u64::from(ino.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: NodeId = NodeId(12);
    const KEPT: u32 = abi::OPEN_CACHE_DIR | abi::OPEN_KEEP_CACHE;
    const DISCARDED: u32 = abi::OPEN_CACHE_DIR;

    /// Opens and lists a directory. Returns the flags of the reply to `OPENDIR`.
    fn list(listings: &Listings, node: NodeId) -> u32 {
        let (handle, flags) = listings.open(node);
        listings.begin(node);
        listings.end(node, handle);
        flags
    }

    #[test]
    fn listing_is_discarded_once_after_requests_for_content() {
        let listings = Listings::new();
        for node in [DIRECTORY, NodeId::ROOT] {
            assert_eq!(list(&listings, node), KEPT);
            assert_eq!(list(&listings, node), KEPT);
        }
        for _ in 0..3 {
            listings.request_content();
            listings.request_content();
            for node in [DIRECTORY, NodeId::ROOT] {
                assert_eq!(list(&listings, node), DISCARDED);
                assert_eq!(list(&listings, node), KEPT);
            }
        }
    }

    #[test]
    fn listing_is_discarded_if_content_was_requested_during_it() {
        let listings = Listings::new();
        let (handle, _) = listings.open(DIRECTORY);
        listings.begin(DIRECTORY);
        listings.request_content();
        listings.end(DIRECTORY, handle);
        assert_eq!(list(&listings, DIRECTORY), DISCARDED);
        assert_eq!(list(&listings, DIRECTORY), KEPT);
    }

    #[test]
    fn incomplete_listing_is_not_discarded() {
        let listings = Listings::new();
        list(&listings, DIRECTORY);
        listings.request_content();
        assert_eq!(listings.open(DIRECTORY), (1, DISCARDED));
        assert_eq!(listings.open(DIRECTORY), (1, KEPT));
        listings.end(DIRECTORY, 1);
        listings.begin(DIRECTORY);
        listings.request_content();
        assert_eq!(listings.open(DIRECTORY), (2, KEPT));
    }

    #[test]
    fn directories_of_one_slot_replace_each_other() {
        let listings = Listings::new();
        let slot = |ino| std::ptr::from_ref(listings.slot(Ino(ino)).unwrap());
        let other = (13..1 << 20).find(|&ino| slot(ino) == slot(12)).unwrap();
        list(&listings, DIRECTORY);
        list(&listings, NodeId::of(Ino(other)));
        listings.request_content();
        assert_eq!(listings.open(DIRECTORY), (1, KEPT));
        assert_eq!(listings.open(NodeId::of(Ino(other))), (1, DISCARDED));
    }

    #[test]
    fn directories_at_the_start_of_each_group_have_different_slots() {
        let listings = Listings::new();
        let slots: std::collections::BTreeSet<_> = (0..1000)
            .map(|group| std::ptr::from_ref(listings.slot(Ino(group * 8192 + 1)).unwrap()))
            .collect();
        assert!(slots.len() > 900, "{}", slots.len());
    }
}
