//! Doubly linked lists of entries.
//!
//! # Model
//! `struct list_head`, with slot numbers as pointers. In addition, each entry stores the number of its
//! list.
//!
//! # Invariants
//! 1. A list has the same entries in both directions.
//! 2. The count of a list is the number of its entries, and each of them stores the number of the list.
//!
//! # Cost
//! The links take one word of an entry.

use crate::table::{Arena, Slot, State};

/// The number that represents the absence of an entry.
const NONE: u32 = (1 << 28) - 1;

/// The maximum number of entries. A link to an entry has 28 bits.
pub(crate) const ENTRIES_MAX: u32 = NONE;

/// The maximum number of lists. The number of a list has 8 bits, and one value represents the absence of a
/// list.
pub(crate) const LISTS_MAX: usize = (1 << 8) - 1;

/// The links of an entry to its neighbours, as stored in the entry's second word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    before: u32,
    after: u32,
    /// The number of the list.
    pub list: usize,
}

impl Links {
    /// The links of an entry that is on no list.
    pub const UNLISTED: Self = Self {
        before: NONE,
        after: NONE,
        list: LISTS_MAX,
    };

    pub fn of<const W: usize>(slot: &Slot<W>) -> Self {
        let word = slot.word(1);
        // After the mask the value has at most 28 bits, so the conversion cannot fail.
        let bits = |from: u32, count: u32| {
            u32::try_from(word >> from & ((1 << count) - 1)).unwrap_or(NONE)
        };
        Self {
            before: bits(0, 28),
            after: bits(28, 28),
            list: bits(56, 8) as usize,
        }
    }

    pub fn store<const W: usize>(self, slot: &Slot<W>) {
        let neighbours = u64::from(self.before) | u64::from(self.after) << 28;
        slot.set_word(1, neighbours | (self.list as u64) << 56);
    }
}

/// A list of entries: its number, its ends, and the number of its entries.
#[derive(Debug)]
pub(crate) struct List {
    number: usize,
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    /// Creates an empty list.
    pub fn new(number: usize) -> Self {
        Self {
            number,
            first: NONE,
            last: NONE,
            len: 0,
        }
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the entry at the front.
    pub fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Appends the entry `index`, which must be on no list.
    pub fn append<const W: usize>(&mut self, slots: &Arena<W>, index: u32) {
        let links = Links {
            before: self.last,
            after: NONE,
            list: self.number,
        };
        links.store(slots.slot(index));
        self.set_successor(slots, self.last, index);
        self.last = index;
        self.len += 1;
    }

    /// Removes the entry `index`, which must be on this list. Does not change the links of the entry
    /// itself.
    pub fn remove<const W: usize>(&mut self, slots: &Arena<W>, index: u32) {
        let Links { before, after, .. } = Links::of(slots.slot(index));
        self.set_successor(slots, before, after);
        self.set_predecessor(slots, after, before);
        self.len -= 1;
    }

    /// Examines up to `left` entries from the front, until `is_evicted` returns true for one. Removes and
    /// returns this entry, and moves all examined entries before it to the end. Decrements `left` for each
    /// examined entry.
    pub fn pass_over<const W: usize>(
        &mut self,
        slots: &Arena<W>,
        left: &mut u64,
        is_evicted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        for _ in 0..(*left).min(self.len.into()) {
            *left -= 1;
            let index = self.first()?;
            self.remove(slots, index);
            if is_evicted(index) {
                return Some(index);
            }
            self.append(slots, index);
        }
        None
    }

    /// Replaces the entry `old` with the entry `new`, which must be on no list.
    pub fn replace<const W: usize>(&mut self, slots: &Arena<W>, old: u32, new: u32) {
        let links = Links::of(slots.slot(old));
        links.store(slots.slot(new));
        self.set_successor(slots, links.before, new);
        self.set_predecessor(slots, links.after, new);
    }

    /// Makes `before` the predecessor of `after`, or the last entry if `after` is [`NONE`].
    fn set_predecessor<const W: usize>(&mut self, slots: &Arena<W>, after: u32, before: u32) {
        if after == NONE {
            self.last = before;
        } else {
            let slot = slots.slot(after);
            let links = Links::of(slot);
            Links { before, ..links }.store(slot);
        }
    }

    /// Makes `after` the successor of `before`, or the first entry if `before` is [`NONE`].
    fn set_successor<const W: usize>(&mut self, slots: &Arena<W>, before: u32, after: u32) {
        if before == NONE {
            self.first = after;
        } else {
            let slot = slots.slot(before);
            let links = Links::of(slot);
            Links { after, ..links }.store(slot);
        }
    }

    /// Checks the invariants of this list, and that all of its entries are live.
    pub fn check_invariants<const W: usize>(&self, slots: &Arena<W>) {
        let (mut before, mut at, mut len) = (NONE, self.first, 0);
        while at != NONE {
            let slot = slots.slot(at);
            let links = Links::of(slot);
            assert_eq!(
                (links.before, links.list),
                (before, self.number),
                "links of slot {at}"
            );
            assert!(slot.state().has(State::LIVE), "slot {at} is not live");
            (before, at) = (at, links.after);
            len += 1;
        }
        assert_eq!((before, len), (self.last, self.len), "list {}", self.number);
    }
}
