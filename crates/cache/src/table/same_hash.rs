//! Operations for tables in which several entries may have the same hash: searches by the hash alone,
//! which return one entry after another, and the deletion and relocation of evictable entries.
//!
//! # How a search continues
//! A search returns its entry pinned, so that the entry stays in its chain. The following entries of the
//! chain are older, since new entries are inserted at the front. So a search that continues after the
//! pinned entry finds no entry twice, unless a slot on its way is reused for a new entry at the front. To
//! detect such a reuse, the search reads the state of each slot, and then checks the previous slot again.
//! If the previous slot has the same entry and still links to this slot, neither of the two was reused.
//! If not, the search starts again after the pinned entry.
//!
//! A pin of a search does not mark the entry as referenced. The caller marks the entry if it uses it.

use super::chain_bound::Room;
use super::hold::{Added, Removal};
use super::link::Link;
use super::{HashFunction, Layout, Pin, Slot, State, Table, Vacant};
use crate::tape::Operation;

/// The position of a search: a slot and the state in which it was passed, or `None` at the bucket head.
type Position<'a, const W: usize> = Option<(&'a Slot<W>, State)>;

impl<L: Layout<W>, H: HashFunction<L::HashInput>, const W: usize> Table<L, H, W>
where
    L::HashInput: PartialEq,
{
    /// Pins and returns the first entry that has `flag` and the hash input `hash_input`.
    #[inline]
    pub(crate) fn find_first(&self, hash_input: L::HashInput, flag: u64) -> Option<Pin<'_, W>> {
        let (found, links) = self.search(hash_input, flag, None);
        self.count(|| hash_input.into(), found.is_some(), links);
        found
    }

    /// Pins and returns the next entry that has `flag` and the same hash as the entry in `pinned`. Counts
    /// no lookup.
    pub(crate) fn find_next(&self, pinned: &Slot<W>, flag: u64) -> Option<Pin<'_, W>> {
        self.search(
            L::hash_input_in(pinned),
            flag,
            Some((pinned, pinned.state())),
        )
        .0
    }

    /// Pins and returns the entry of `key`. Locks the bucket, so that the entry is found even if another
    /// thread moves it to another slot. Counts no lookup.
    pub(crate) fn pin(&self, key: &L::Key<'_>) -> Option<Pin<'_, W>> {
        let locked = self.buckets.lock(self.bucket(L::hash_input(key)));
        let index = self.find_live(&locked, key)?;
        self.pin_at(index, self.arena.slot(index).state(), State::LIVE)
    }

    /// Inserts an entry of `key` in the slot `vacant` with `flags`, unless `key` is in the table already.
    /// If the chain has `chain_max` entries, evicts one of them and calls `evicted` with its slot number.
    pub(crate) fn insert_absent(
        &self,
        key: &L::Key<'_>,
        vacant: Vacant<'_, W>,
        flags: u64,
        chain_max: u32,
        evicted: impl FnOnce(u32),
    ) -> Added {
        let mut locked = self.buckets.lock(self.bucket(L::hash_input(key)));
        match self.find(&locked, key) {
            Some(index) if self.is_live(index) => {
                // Slots are freed after the lock is released.
                drop(locked);
                return Added::Existing;
            }
            Some(evicted) => self.remove_from_chain(&mut locked, evicted, Operation::Evict),
            None => {}
        }
        let mut oldest = None;
        match self.arena.room(self.arena.chain(locked.first()), chain_max) {
            Room::Evict(index) if self.arena.claim(index).is_some() => {
                self.remove_from_chain(&mut locked, index, Operation::Evict);
                evicted(index);
                oldest = Some(self.arena.vacant(index));
            }
            Room::Free => {}
            Room::Evict(_) | Room::None => {
                drop(locked);
                return Added::NoRoom;
            }
        }
        L::store(key, vacant.slot());
        self.push(&mut locked, vacant, flags);
        drop(locked);
        drop(oldest);
        Added::New
    }

    /// Removes the entry of `key` if it is evictable. If it is not, pins and returns it.
    pub(crate) fn remove_or_pin(&self, key: &L::Key<'_>) -> Removal<'_, W> {
        let mut locked = self.buckets.lock(self.bucket(L::hash_input(key)));
        let Some(index) = self.find_live(&locked, key) else {
            return Removal::Absent;
        };
        loop {
            if self.arena.claim(index).is_some() {
                self.remove_from_chain(&mut locked, index, Operation::Remove);
                drop(locked);
                drop(self.arena.vacant(index));
                return Removal::Removed;
            }
            let state = self.arena.slot(index).state();
            if !state.has(State::LIVE) {
                // The clock hand has claimed the entry.
                return Removal::Absent;
            }
            if let Some(pin) = self.pin_at(index, state, State::LIVE) {
                return Removal::Pinned(pin);
            }
        }
    }

    /// Moves the entry in slot `index` to `vacant`. The old slot is then claimed and in no chain. Returns
    /// false if the entry is not evictable, or was evicted meanwhile. A concurrent search may miss the
    /// entry. An insertion or removal always finds the entry, since it locks the bucket.
    pub(crate) fn relocate(&self, index: u32, vacant: Vacant<'_, W>) -> bool {
        let slot = self.arena.slot(index);
        let seen = slot.state();
        if !seen.has(State::LIVE) {
            return false;
        }
        let mut locked = self.buckets.lock(self.bucket(L::hash_input_in(slot)));
        // If the slot still has the same entry, the locked bucket is the bucket of this entry.
        if !slot.state().is_same_entry(seen) {
            return false;
        }
        let Some(state) = self.arena.claim(index) else {
            return false;
        };
        vacant.slot().copy_from(slot);
        Self::link(&mut locked, vacant, state.flags());
        self.unlink_slot(&mut locked, index);
        true
    }

    /// Pins and returns the first entry after `after` that has `flag` and the hash input `hash_input`. Also
    /// returns the number of links walked.
    #[inline]
    fn search(
        &self,
        hash_input: L::HashInput,
        flag: u64,
        after: Position<'_, W>,
    ) -> (Option<Pin<'_, W>>, u64) {
        let bucket = self.bucket(hash_input);
        let mut links = 0;
        'start: loop {
            let mut before = after;
            loop {
                let at = match before {
                    Some((slot, _)) => slot.next(),
                    None => self.buckets.first(bucket),
                };
                let Link::Slot(index) = at else {
                    if at == self.buckets.end(bucket) && self.leads_to(bucket, before, at) {
                        return (None, links);
                    }
                    continue 'start;
                };
                let slot = self.arena.slot(index);
                let state = slot.state();
                links += 1;
                if !self.leads_to(bucket, before, at) {
                    continue 'start;
                }
                if state.has(flag)
                    && L::hash_input_in(slot) == hash_input
                    && let Some(pin) = self.pin_at(index, state, flag)
                {
                    return (Some(pin), links);
                }
                before = Some((slot, state));
            }
        }
    }

    /// Returns true if the slot in `before` is still in the chain, with the same entry, and links to
    /// `at`. If `before` is `None`, returns true if the bucket head links to `at`.
    #[inline]
    fn leads_to(&self, bucket: u32, before: Position<'_, W>, at: Link) -> bool {
        let Some((slot, seen)) = before else {
            return self.buckets.first(bucket) == at;
        };
        // A slot that was unlinked from its chain has a link to the end of a free list or to a free slot.
        let is_before = slot.next() == at;
        let now = slot.state();
        is_before && now.is_same_entry(seen) && !now.has(State::FREE)
    }

    /// Pins the entry in slot `index` if it is still the entry that was in state `seen`, and has `flag`.
    #[inline]
    fn pin_at(&self, index: u32, seen: State, flag: u64) -> Option<Pin<'_, W>> {
        let slot = self.arena.slot(index);
        let pinned = slot.update(seen, |state| {
            let can_pin = state.is_same_entry(seen) && state.can_pin() && state.has(flag);
            can_pin.then(|| state.with_pin())
        });
        pinned.is_ok().then(|| Pin::adopt(slot, index))
    }
}
