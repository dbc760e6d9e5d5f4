//! `lru` and `list-lru`: the lists that the referenced bit replaced.
//!
//! # Model
//! The other two orders of J. Kara's rewrite. New entries are added at the end of a list, and entries
//! are evicted from its front:
//!
//! | variant | lists | an entry that is used |
//! |---|---|---|
//! | `lru` | one | moves to the end at once |
//! | `list-lru` | one for each processor; an entry stays on that of its inserter | moves to its end |
//!
//! # Invariants
//! 1. An entry that can be found and is not held is on the list that its second word names.
//! 2. The count is the number of entries on the lists.
//!
//! # Locking
//! A list's lock guards its ends, and the links of the entries on it. It is innermost.

use crate::mbcache::Variant;
use crate::mbcache::entries::Entries;
use crate::mbcache::list::{LISTS_MAX, Links, List};
use crate::mbcache::probe::{Locked, Probe, Touch, place};
use crate::mbcache::rewrite::Order;
use crate::sync::{AtomicU32, Mutex, Relaxed};
use crate::table::Slot;
use crossbeam_utils::CachePadded;

/// The lists of a cache.
#[derive(Debug)]
pub(crate) struct Lru {
    variant: Variant,
    lists: Box<[CachePadded<Mutex<List>>]>,
    /// Number of entries on all lists.
    count: AtomicU32,
    /// The list where eviction continues, so that it takes from each list in turn.
    turn: AtomicU32,
}

impl Lru {
    /// Creates the order of `lru`: one list.
    pub fn one() -> Self {
        Self::new(Variant::Lru, 1)
    }

    /// Creates the order of `list-lru`: a list for each processor.
    pub fn for_each_of(processors: usize) -> Self {
        Self::new(Variant::ListLru, processors.clamp(1, LISTS_MAX))
    }

    fn new(variant: Variant, lists: usize) -> Self {
        Self {
            variant,
            lists: (0..lists)
                .map(|number| CachePadded::new(Mutex::new(List::new(number))))
                .collect(),
            count: AtomicU32::new(0),
            turn: AtomicU32::new(0),
        }
    }

    /// Returns the next list that is not empty, locked.
    fn next_list<'c, P: Probe>(
        &'c self,
        entries: &'c Entries<P, 2>,
    ) -> Option<Locked<'c, List, P>> {
        let count = self.lists.len();
        let turn = self.turn.fetch_add(1, Relaxed) as usize;
        (turn..turn + count)
            .map(|at| self.lock(entries, at % count))
            .find(|list| list.len() > 0)
    }

    /// Returns the list of the entry `index`, locked.
    fn list_of<'c, P: Probe>(
        &'c self,
        entries: &'c Entries<P, 2>,
        index: u32,
    ) -> Locked<'c, List, P> {
        self.lock(entries, Links::of(entries.slot(index)).list)
    }

    fn lock<'c, P: Probe>(
        &'c self,
        entries: &'c Entries<P, 2>,
        list: usize,
    ) -> Locked<'c, List, P> {
        Locked::new(&self.lists[list], place::list(list), &entries.probe)
    }

    /// Reports a write of the count, unless the lock of the only list guards it.
    fn counted<P: Probe>(&self, entries: &Entries<P, 2>) {
        if self.lists.len() > 1 {
            entries.probe.touched(Touch::Write(place::COUNT));
        }
    }
}

impl<P: Probe> Order<P> for Lru {
    fn variant(&self) -> Variant {
        self.variant
    }

    fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    fn bytes(&self) -> u64 {
        size_of_val(&*self.lists) as u64
    }

    fn init(&self, slot: &Slot<2>) {
        Links::UNLISTED.store(slot);
    }

    fn add(&self, entries: &Entries<P, 2>, index: u32) {
        let own = entries.probe.processor() % self.lists.len();
        let mut list = self.lock(entries, own);
        list.append(&entries.arena, index);
        self.count.fetch_add(1, Relaxed);
        self.counted(entries);
    }

    fn remove(&self, entries: &Entries<P, 2>, index: u32) {
        let mut list = self.list_of(entries, index);
        list.remove(&entries.arena, index);
        self.count.fetch_sub(1, Relaxed);
        self.counted(entries);
    }

    fn replace(&self, entries: &Entries<P, 2>, old: u32, new: u32) {
        self.list_of(entries, old).replace(&entries.arena, old, new);
    }

    fn used(&self, entries: &Entries<P, 2>, index: u32) {
        let list = Links::of(entries.slot(index)).list;
        if list == Links::UNLISTED.list {
            // Its inserter is about to add it at an end.
            return;
        }
        let mut list = self.lock(entries, list);
        list.remove(&entries.arena, index);
        list.append(&entries.arena, index);
    }

    fn claim_next(&self, entries: &Entries<P, 2>, left: &mut u64) -> Option<u32> {
        let claim = |index| entries.claim(index).is_some();
        while *left > 0 {
            let mut list = self.next_list(entries)?;
            let found = list.pass_over(&entries.arena, left, claim);
            if found.is_some() {
                self.count.fetch_sub(1, Relaxed);
                self.counted(entries);
                return found;
            }
        }
        None
    }

    fn check_invariants(&self, entries: &Entries<P, 2>) {
        let mut count = 0;
        for list in 0..self.lists.len() {
            let list = self.lock(entries, list);
            list.check_invariants(&entries.arena);
            count += list.len();
        }
        assert_eq!(count, Order::<P>::count(self), "number of entries");
    }
}
