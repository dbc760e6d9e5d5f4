//! The eviction orders of `lru` and `list-lru`, which have LRU lists instead of a referenced bit.
//!
//! # Model
//! Two orders that J. Kara compares with the referenced bit. New entries are added at the end of a list,
//! and entries are evicted from the front. An entry that is used moves to the end of its list at once.
//!
//! | variant | lists |
//! |---|---|
//! | `lru` | one |
//! | `list-lru` | one for each NUMA node, as Linux's `list_lru`; an entry is on the list of the node that inserted it |
//!
//! A cache of a mount regards each processor as a node ([`Probe::nodes`]).
//!
//! # Invariants
//! 1. A live entry that is not held is on the list whose number is in its second word.
//! 2. The count is the number of entries on all lists.
//!
//! # Locking
//! The lock of a list guards the ends of the list, and the links of the entries on it. It is innermost.

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
    /// The number of entries on all lists.
    count: AtomicU32,
    /// The list from which the next entry is evicted. It advances with each eviction, so that each list
    /// has its turn.
    turn: AtomicU32,
}

impl Lru {
    /// Creates the order of `lru`: one list.
    pub fn one() -> Self {
        Self::new(Variant::Lru, 1)
    }

    /// Creates the order of `list-lru`: a list for each node.
    pub fn for_each_of(nodes: usize) -> Self {
        Self::new(Variant::ListLru, nodes.clamp(1, LISTS_MAX))
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

    /// Locks and returns the next list that is not empty.
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

    /// Locks and returns the list of the entry `index`.
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

    /// Reports that the count was written, unless there is only one list, whose lock guards the count.
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
        let own = entries.probe.node() % self.lists.len();
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
            // The thread that inserts the entry will add it at the end of a list.
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
