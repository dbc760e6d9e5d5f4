//! Buckets of entries, each with a lock.
//!
//! # Model
//! `hlist_bl_head`: a chain of entries with equal or colliding keys. The first entry is the one that was last
//! inserted or moved to another slot.
//!
//! # Locking
//! The lock of a bucket guards its chain. It is innermost.
//!
//! # Cost
//! A bucket takes 8 bytes.

use crate::mbcache::entries::Entries;
use crate::mbcache::probe::{Locked, Probe, place};
use crate::sync::Mutex;
use crate::table::{Hash64, HashFunction, Link, Room, State};

/// The link at the end of every chain.
const END: Link = Link::End(0);

/// A bucket: a lock that contains the raw link to the first entry.
type Head = Mutex<u32>;

/// The size of a bucket in bytes.
pub(super) const BUCKET_BYTES: usize = size_of::<Head>();

/// An array of 2^`bits` buckets.
#[derive(Debug)]
pub(super) struct Buckets {
    heads: Box<[Head]>,
    bits: u32,
}

/// A locked bucket.
pub(super) struct Chain<'c, P: Probe> {
    head: Locked<'c, u32, P>,
    entries: &'c Entries<P, 2>,
}

impl Buckets {
    pub fn new(bits: u32) -> Self {
        Self {
            heads: (0..1_u32 << bits).map(|_| Mutex::new(END.raw())).collect(),
            bits,
        }
    }

    pub fn count(&self) -> u64 {
        self.heads.len() as u64
    }

    /// Returns the size of all buckets in bytes.
    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.heads) as u64
    }

    /// Locks the bucket of `key`.
    pub fn lock<'c, P: Probe>(&'c self, entries: &'c Entries<P, 2>, key: u32) -> Chain<'c, P> {
        self.lock_bucket(entries, Hash64.bucket(key, self.bits))
    }

    fn lock_bucket<'c, P: Probe>(
        &'c self,
        entries: &'c Entries<P, 2>,
        bucket: u32,
    ) -> Chain<'c, P> {
        let head = &self.heads[bucket as usize];
        let head = Locked::new(head, place::bucket(bucket), &entries.probe);
        Chain { head, entries }
    }

    /// Checks that each chain contains only live entries of its bucket. Returns the number of entries in
    /// all chains.
    pub fn check_invariants<P: Probe>(&self, entries: &Entries<P, 2>) -> u32 {
        let mut count = 0;
        for (bucket, _) in (0..).zip(&self.heads) {
            let chain = self.lock_bucket(entries, bucket);
            for index in chain.walk(chain.first()) {
                let slot = entries.slot(index);
                assert!(slot.state().has(State::LIVE), "slot {index} is not live");
                let own = Hash64.bucket(slot.aux(), self.bits);
                assert_eq!(own, bucket, "bucket of slot {index}");
                count += 1;
            }
        }
        count
    }
}

impl<P: Probe> Chain<'_, P> {
    fn first(&self) -> Link {
        Link::from_raw(*self.head)
    }

    /// Returns the entries of the chain from `from` on, including those that another thread has claimed
    /// and will remove.
    fn walk(&self, from: Link) -> impl Iterator<Item = u32> {
        self.entries.arena.chain(from)
    }

    /// Holds and returns the first reusable entry with `key` after the entry `after`. If `after` is `None`,
    /// searches the whole chain.
    pub fn hold_reusable(&self, key: u32, after: Option<u32>) -> Option<u32> {
        let from = after.map_or(self.first(), |index| self.entries.slot(index).next());
        self.walk(from).find(|&index| {
            self.entries.slot(index).aux() == key && self.entries.hold(index, State::REUSABLE)
        })
    }

    /// Returns the live entry with `key` and `value`.
    pub fn find(&self, key: u32, value: u64) -> Option<u32> {
        self.walk(self.first()).find(|&index| {
            let slot = self.entries.slot(index);
            slot.aux() == key && slot.word(0) == value && slot.state().has(State::LIVE)
        })
    }

    /// Makes room for one more entry. If the result is [`Room::Evict`], it contains an entry that was claimed
    /// and removed from the chain. The caller must remove this entry from the eviction order, and free it.
    pub fn make_room(&mut self) -> Room {
        let Entries {
            arena, chain_max, ..
        } = self.entries;
        let room = arena.room(self.walk(self.first()), *chain_max);
        if let Room::Evict(oldest) = room {
            if self.entries.claim(oldest).is_none() {
                // Another thread has just held or claimed the entry.
                return Room::None;
            }
            self.remove(oldest);
        }
        room
    }

    /// Adds the entry `index` at the front.
    pub fn push(&mut self, index: u32) {
        self.entries.slot(index).set_next(self.first());
        *self.head = Link::Slot(index).raw();
    }

    /// Removes the entry `index`, which must be in the chain.
    pub fn remove(&mut self, index: u32) {
        let after = self.entries.slot(index).next();
        let is_before = |&before: &u32| self.entries.slot(before).next() == Link::Slot(index);
        let before = self.walk(self.first()).find(is_before);
        match before {
            Some(before) => self.entries.slot(before).set_next(after),
            None => *self.head = after.raw(),
        }
    }
}
