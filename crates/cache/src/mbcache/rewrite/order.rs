//! The order in which entries go.
//!
//! # Model
//! The list of J. Kara's rewrite with the referenced bit that Linux chose: new entries join the list
//! at its end, and go from its front. One that was of use stays where it is, and is marked: at the
//! front it loses the mark, and moves to the end.
//!
//! # Invariants
//! 1. What can be found and nobody holds is in the order.
//! 2. The order has as many entries as it counts.
//!
//! # Locking
//! The list's lock guards its ends, and the links of the entries on it. Innermost.

use crate::mbcache::entries::Entries;
use crate::mbcache::list::List;
use crate::mbcache::probe::{Locked, Probe, place};
use crate::mbcache::{Holds as _, Variant};
use crate::sync::{AtomicU32, Mutex, Relaxed};
use crate::table::{Slot, State};
use crossbeam_utils::CachePadded;
use std::fmt::Debug;

/// Says which entry goes first. That is all in which the variants of the rewrite differ.
pub(crate) trait Order<P: Probe>: Debug + Send + Sync + 'static {
    /// The variant that has this order.
    fn variant(&self) -> Variant;

    /// Entries in the order.
    fn count(&self) -> u32;

    /// Bytes that it takes, entries apart.
    fn bytes(&self) -> u64;

    /// Notes in a new entry's slot that it is not in the order.
    fn init(&self, _: &Slot<2>) {}

    /// Adds the entry `index`, which the caller holds and which is new.
    fn add(&self, entries: &Entries<P, 2>, index: u32);

    /// Takes the entry `index` out, which the caller has claimed.
    fn remove(&self, entries: &Entries<P, 2>, index: u32);

    /// Puts the entry `new`, which the caller holds, where `old` is, which he has claimed.
    fn replace(&self, entries: &Entries<P, 2>, old: u32, new: u32);

    /// The entry `index`, which the caller holds, was of use.
    fn used(&self, entries: &Entries<P, 2>, index: u32);

    /// Passes over `left` entries, counting them off, until one can be claimed: that is claimed then,
    /// and not in the order.
    fn next_to_go(&self, entries: &Entries<P, 2>, left: &mut u64) -> Option<u32>;

    /// Checks the invariants.
    fn check_invariants(&self, entries: &Entries<P, 2>);
}

/// `referenced`: one list.
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

    fn next_to_go(&self, entries: &Entries<P, 2>, left: &mut u64) -> Option<u32> {
        let goes = |index| {
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
            let found = list.pass_over(&entries.arena, left, goes);
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
        assert_eq!(list.len(), Order::<P>::count(self), "entries counted");
    }
}
