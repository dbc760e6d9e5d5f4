//! The lists that say which entry goes first.
//!
//! # Model
//! The three of J. Kara's rewrite. New entries join a list at its end, and go from its front:
//!
//! | variant | lists | an entry that was of use |
//! |---|---|---|
//! | `lru` | one | moves to the end at once |
//! | `list-lru` | one for each processor; an entry stays on that of its inserter | moves to its end |
//! | `referenced` | one | stays where it is, and is marked: at the front it loses the mark, and moves to the end |
//!
//! # Invariants
//! 1. What can be found and nobody holds is on the list that its second word names.
//! 2. The lists have as many entries as are counted.
//!
//! # Locking
//! A list's lock guards its ends, and the links of the entries on it. Innermost.

use crate::mbcache::Variant;
use crate::mbcache::entries::Entries;
use crate::mbcache::holds::Holds;
use crate::mbcache::list::{LISTS_MAX, Links, List};
use crate::mbcache::probe::{Locked, Probe, Touch, place};
use crate::sync::{AtomicU32, Mutex, Relaxed};
use crate::table::{Slot, State};
use crossbeam_utils::CachePadded;

/// The lists of a cache.
#[derive(Debug)]
pub(super) struct Lists {
    variant: Variant,
    each: Box<[CachePadded<Mutex<List>>]>,
    /// Entries on all lists.
    count: AtomicU32,
    /// Where eviction goes on, so that it takes from each list in turn.
    turn: AtomicU32,
}

impl Lists {
    pub fn new(variant: Variant, processors: usize) -> Self {
        let lists = match variant {
            Variant::ListLru => processors.clamp(1, LISTS_MAX),
            _ => 1,
        };
        Self {
            variant,
            each: (0..lists)
                .map(|_| CachePadded::new(Mutex::new(List::EMPTY)))
                .collect(),
            count: AtomicU32::new(0),
            turn: AtomicU32::new(0),
        }
    }

    /// Notes in a new entry's slot that it is on no list.
    pub fn init(slot: &Slot<2>) {
        Links::UNLISTED.store(slot);
    }

    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Entries on all lists.
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Bytes that the lists' heads take.
    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.each) as u64
    }

    /// Puts the entry `index`, which the caller holds and which is new, on a list.
    pub fn add<P: Probe>(&self, entries: &Entries<P, 2>, index: u32) {
        let list = entries.probe.processor() % self.each.len();
        let mut listed = self.lock(entries, list);
        listed.append(&entries.arena, index, list);
        self.count.fetch_add(1, Relaxed);
        self.counted(entries);
    }

    /// Takes the entry `index`, which the caller has claimed, off its list.
    pub fn remove<P: Probe>(&self, entries: &Entries<P, 2>, index: u32) {
        let list = Links::of(entries.slot(index)).list;
        let mut listed = self.lock(entries, list);
        listed.remove(&entries.arena, index);
        self.count.fetch_sub(1, Relaxed);
        self.counted(entries);
    }

    /// Puts the entry `new`, which the caller holds, where `old` is, which he has claimed.
    pub fn replace<P: Probe>(&self, entries: &Entries<P, 2>, old: u32, new: u32) {
        let list = Links::of(entries.slot(old)).list;
        self.lock(entries, list).replace(&entries.arena, old, new);
    }

    /// The entry `index`, which the caller holds, was of use.
    pub fn used<P: Probe>(&self, entries: &Entries<P, 2>, index: u32) {
        if self.variant == Variant::Referenced {
            entries.touch(index);
            return;
        }
        let list = Links::of(entries.slot(index)).list;
        if list == Links::UNLISTED.list {
            // Its inserter is about to put it at an end.
            return;
        }
        let mut listed = self.lock(entries, list);
        listed.remove(&entries.arena, index);
        listed.append(&entries.arena, index, list);
    }

    /// Passes over `left` entries from the front, counting them off, until `claim` takes one: that
    /// is on no list then. The others move to the end, and lose their mark.
    pub fn next_to_go<P: Probe>(
        &self,
        entries: &Entries<P, 2>,
        left: &mut u64,
        claim: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        while *left > 0 {
            let (list, mut listed) = self.next_list(entries)?;
            for _ in 0..(*left).min(listed.len().into()) {
                *left -= 1;
                let index = listed.first()?;
                let slot = entries.slot(index);
                let is_spared = slot.take_flag_of(slot.state(), State::REFERENCED);
                if is_spared {
                    entries.wrote(index);
                }
                listed.remove(&entries.arena, index);
                if !is_spared && claim(index) {
                    self.count.fetch_sub(1, Relaxed);
                    self.counted(entries);
                    return Some(index);
                }
                listed.append(&entries.arena, index, list);
            }
        }
        None
    }

    /// The next list that is not empty, locked.
    fn next_list<'c, P: Probe>(
        &'c self,
        entries: &'c Entries<P, 2>,
    ) -> Option<(usize, Locked<'c, List, P>)> {
        let count = self.each.len();
        let turn = self.turn.fetch_add(1, Relaxed) as usize;
        (turn..turn + count)
            .map(|at| (at % count, self.lock(entries, at % count)))
            .find(|(_, listed)| listed.len() > 0)
    }

    fn lock<'c, P: Probe>(
        &'c self,
        entries: &'c Entries<P, 2>,
        list: usize,
    ) -> Locked<'c, List, P> {
        Locked::new(&self.each[list], place::list(list), &entries.probe)
    }

    /// Tells that the count was written, unless the lock of the one list guards it.
    fn counted<P: Probe>(&self, entries: &Entries<P, 2>) {
        if self.each.len() > 1 {
            entries.probe.touched(Touch::Write(place::COUNT));
        }
    }

    /// Checks the invariants.
    pub fn check_invariants<P: Probe>(&self, entries: &Entries<P, 2>) {
        let mut count = 0;
        for list in 0..self.each.len() {
            let listed = self.lock(entries, list);
            listed.check_invariants(&entries.arena, list);
            count += listed.len();
        }
        assert_eq!(count, self.count(), "entries counted");
    }
}
