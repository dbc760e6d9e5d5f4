//! The eviction order of entries: the interface of an order, and the order of `referenced`.
//!
//! # Model
//! The list of J. Kara's rewrite with a referenced bit, as in Linux. New entries are added at the end of
//! the list, and entries are evicted from the front. When an entry is used, its bit is set, and the entry
//! is not moved. An eviction examines the entry at the front. If the bit is set, it clears the bit and moves
//! the entry to the end. If the entry is held, it moves the entry to the end, too.
//!
//! # Invariants
//! 1. A live entry that is not held is in the order.
//! 2. The count is the number of entries in the order.
//!
//! # Locking
//! The lock of the list guards the ends of the list, and the links of the entries on it. It is innermost.

use crate::mbcache::entries::Entries;
use crate::mbcache::list::List;
use crate::mbcache::probe::{Locked, Probe, place};
use crate::mbcache::{EntryOperations as _, Variant};
use crate::sync::{AtomicU32, Mutex, Relaxed};
use crate::table::{Slot, State};
use crossbeam_utils::CachePadded;
use std::fmt::Debug;

/// An eviction order, the only difference between the variants of the rewrite.
pub(crate) trait Order<P: Probe>: Debug + Send + Sync + 'static {
    /// Returns the variant that has this order.
    fn variant(&self) -> Variant;

    /// Returns the number of entries in the order.
    fn count(&self) -> u32;

    /// Returns the memory of the order in bytes, without that of the entries.
    fn bytes(&self) -> u64;

    /// Records in the slot of a new entry that the entry is not in the order.
    fn init(&self, _: &Slot<2>) {}

    /// Adds the new entry `index`, which the caller must hold.
    fn add(&self, entries: &Entries<P, 2>, index: u32);

    /// Removes the entry `index`, which the caller must have claimed.
    fn remove(&self, entries: &Entries<P, 2>, index: u32);

    /// Puts the entry `new` in the place of the entry `old`. The caller must hold `new`, and must have
    /// claimed `old`.
    fn replace(&self, entries: &Entries<P, 2>, old: u32, new: u32);

    /// Records a use of the entry `index`, which the caller must hold.
    fn used(&self, entries: &Entries<P, 2>, index: u32);

    /// Examines up to `left` entries until one can be evicted, and decrements `left` for each examined
    /// entry. Claims the entry that can be evicted, removes it from the order, and returns it.
    fn claim_next(&self, entries: &Entries<P, 2>, left: &mut u64) -> Option<u32>;

    /// Checks the list and its counts.
    fn check_invariants(&self, entries: &Entries<P, 2>);
}

/// The order of `referenced`: one list.
#[derive(Debug)]
pub(crate) struct Referenced {
    list: CachePadded<Mutex<List>>,
    count: AtomicU32,
}

impl Referenced {
    pub fn new() -> Self {
        Self {
            list: CachePadded::new(Mutex::new(List::new(0))),
            count: AtomicU32::new(0),
        }
    }

    fn lock<'c, P: Probe>(&'c self, entries: &'c Entries<P, 2>) -> Locked<'c, List, P> {
        Locked::new(&self.list, place::list(0), &entries.probe)
    }
}

impl<P: Probe> Order<P> for Referenced {
    fn variant(&self) -> Variant {
        Variant::Referenced
    }

    fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    fn bytes(&self) -> u64 {
        size_of_val(&self.list) as u64
    }

    fn add(&self, entries: &Entries<P, 2>, index: u32) {
        let mut list = self.lock(entries);
        list.append(&entries.arena, index);
        self.count.fetch_add(1, Relaxed);
    }

    fn remove(&self, entries: &Entries<P, 2>, index: u32) {
        let mut list = self.lock(entries);
        list.remove(&entries.arena, index);
        self.count.fetch_sub(1, Relaxed);
    }

    fn replace(&self, entries: &Entries<P, 2>, old: u32, new: u32) {
        self.lock(entries).replace(&entries.arena, old, new);
    }

    fn used(&self, entries: &Entries<P, 2>, index: u32) {
        entries.touch(index);
    }

    fn claim_next(&self, entries: &Entries<P, 2>, left: &mut u64) -> Option<u32> {
        let is_evicted = |index| {
            let slot = entries.slot(index);
            let is_spared = slot.take_flag_of(slot.state(), State::REFERENCED);
            if is_spared {
                entries.wrote(index);
            }
            !is_spared && entries.claim(index).is_some()
        };
        while *left > 0 {
            let mut list = self.lock(entries);
            if list.len() == 0 {
                return None;
            }
            let found = list.pass_over(&entries.arena, left, is_evicted);
            if found.is_some() {
                self.count.fetch_sub(1, Relaxed);
                return found;
            }
        }
        None
    }

    fn check_invariants(&self, entries: &Entries<P, 2>) {
        let list = self.lock(entries);
        list.check_invariants(&entries.arena);
        assert_eq!(list.len(), Order::<P>::count(self), "number of entries");
    }
}
