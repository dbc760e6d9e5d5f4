//! Lists of entries.
//!
//! # Model
//! `struct list_head`, with slot numbers for pointers, and the number of the list that an entry is on.
//!
//! # Invariants
//! 1. From the front and from the end, a list passes the same entries.
//! 2. They are as many as it counts, and name it.
//!
//! # Cost
//! One word of an entry.

use crate::table::{Arena, Slot, State};

/// No entry.
const NONE: u32 = (1 << 28) - 1;

/// Entries at most: what 28 bits number.
pub(crate) const ENTRIES_MAX: u32 = NONE;

/// Lists at most, beside none: what 8 bits number.
pub(crate) const LISTS_MAX: usize = (1 << 8) - 1;

/// The second word of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    before: u32,
    after: u32,
    /// The number of the list.
    pub list: usize,
}

impl Links {
    /// On no list.
    pub const UNLISTED: Self = Self {
        before: NONE,
        after: NONE,
        list: LISTS_MAX,
    };

    pub fn of<const W: usize>(slot: &Slot<W>) -> Self {
        let word = slot.word(1);
        // What is left are 28 bits at most.
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

/// A list: its number, its ends, and how many entries it has.
#[derive(Debug)]
pub(crate) struct List {
    number: usize,
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    /// An empty list.
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

    /// The entry at the front.
    pub fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Puts the entry `index`, which is on no list, at the end of this one.
    pub fn append<const W: usize>(&mut self, slots: &Arena<W>, index: u32) {
        let links = Links {
            before: self.last,
            after: NONE,
            list: self.number,
        };
        links.store(slots.slot(index));
        self.let_follow(slots, self.last, index);
        self.last = index;
        self.len += 1;
    }

    /// Takes the entry `index` off, which is on this list. Its links stay as they were.
    pub fn remove<const W: usize>(&mut self, slots: &Arena<W>, index: u32) {
        let Links { before, after, .. } = Links::of(slots.slot(index));
        self.let_follow(slots, before, after);
        self.let_precede(slots, after, before);
        self.len -= 1;
    }

    /// Passes over up to `left` entries from the front, counting them off, until `goes` takes one,
    /// which is on no list then. The others move to the end.
    pub fn pass_over<const W: usize>(
        &mut self,
        slots: &Arena<W>,
        left: &mut u64,
        goes: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        for _ in 0..(*left).min(self.len.into()) {
            *left -= 1;
            let index = self.first()?;
            self.remove(slots, index);
            if goes(index) {
                return Some(index);
            }
            self.append(slots, index);
        }
        None
    }

    /// Puts the entry `new`, which is on no list, where `old` is.
    pub fn replace<const W: usize>(&mut self, slots: &Arena<W>, old: u32, new: u32) {
        let links = Links::of(slots.slot(old));
        links.store(slots.slot(new));
        self.let_follow(slots, links.before, new);
        self.let_precede(slots, links.after, new);
    }

    /// Lets `before` precede `after`, or be last.
    fn let_precede<const W: usize>(&mut self, slots: &Arena<W>, after: u32, before: u32) {
        if after == NONE {
            self.last = before;
        } else {
            let slot = slots.slot(after);
            let links = Links::of(slot);
            Links { before, ..links }.store(slot);
        }
    }

    /// Lets `after` follow `before`, or be first.
    fn let_follow<const W: usize>(&mut self, slots: &Arena<W>, before: u32, after: u32) {
        if before == NONE {
            self.first = after;
        } else {
            let slot = slots.slot(before);
            let links = Links::of(slot);
            Links { after, ..links }.store(slot);
        }
    }

    /// Checks the invariants of this list, and that all on it are live.
    pub fn check_invariants<const W: usize>(&self, slots: &Arena<W>) {
        let (mut before, mut at, mut len) = (NONE, self.first, 0);
        while at != NONE {
            let slot = slots.slot(at);
            let links = Links::of(slot);
            assert_eq!(
                (links.before, links.list),
                (before, self.number),
                "slot {at}"
            );
            assert!(slot.state().has(State::LIVE), "slot {at} is live");
            (before, at) = (at, links.after);
            len += 1;
        }
        assert_eq!((before, len), (self.last, self.len), "list {}", self.number);
    }
}
