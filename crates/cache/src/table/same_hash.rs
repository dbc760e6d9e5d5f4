//! Tables in which several entries may have the same hash: searches that use the hash alone and
//! proceed from one entry to the next, and deletion and relocation of entries that are not held.
//!
//! # How a search continues
//! The entry found is pinned, so it keeps its place. The entries after it in its chain are older,
//! since new entries are inserted at the front. So a search that continues after it sees no entry
//! twice, as long as every slot that it passes follows the previous one in the chain. But a slot that
//! was reused meanwhile could be at the front again. Therefore, after the state of a slot is read,
//! the previous slot is checked again: if it has the same entry and still links to this slot, both
//! were in their places. If not, the search starts again, after the pinned entry.
//!
//! Pins taken here do not mark the entry as referenced: the holder does that.

use super::chain_bound::Room;
use super::hold::{Added, Removal};
use super::link::Link;
use super::{HashFunction, Layout, Pin, Slot, State, Table, Vacant};

/// The position of a search: a slot that was in this state, or the start of the chain.
type Place<'a, const W: usize> = Option<(&'a Slot<W>, State)>;

impl<L: Layout<W>, H: HashFunction<L::Hashed>, const W: usize> Table<L, H, W>
where
    L::Hashed: PartialEq,
{
    /// Returns the first entry with this hash and `flag`, pinned.
    #[inline]
    pub(crate) fn find_first(&self, hashed: L::Hashed, flag: u64) -> Option<Pin<'_, W>> {
        let (found, links) = self.search(hashed, flag, None);
        self.count(|| hashed.into(), found.is_some(), links);
        found
    }

    /// Returns the next entry after `held` with its hash and `flag`, pinned. Counts no lookup.
    pub(crate) fn find_next(&self, held: &Slot<W>, flag: u64) -> Option<Pin<'_, W>> {
        self.search(L::hashed_in(held), flag, Some((held, held.state())))
            .0
    }

    /// Returns the entry of `key`, pinned, even if it is being moved. Counts no lookup.
    pub(crate) fn pin(&self, key: &L::Key<'_>) -> Option<Pin<'_, W>> {
        let locked = self.buckets.lock(self.bucket(L::hashed(key)));
        let index = self.find_live(&locked, key)?;
        self.pin_at(index, self.arena.slot(index).state(), State::LIVE)
    }

    /// Inserts `key` with `vacant` and `flags` unless it is in the table already. If its chain has
    /// `chain_max` entries, one is evicted, and `evicted` is called with its slot.
    pub(crate) fn insert_absent(
        &self,
        key: &L::Key<'_>,
        vacant: Vacant<'_, W>,
        flags: u64,
        chain_max: u32,
        evicted: impl FnOnce(u32),
    ) -> Added {
        let mut locked = self.buckets.lock(self.bucket(L::hashed(key)));
        match self.find(&locked, key) {
            Some(index) if self.is_live(index) => {
                // Slots are freed after the lock is released.
                drop(locked);
                return Added::Existing;
            }
            Some(evicted) => self.remove_from_chain(&mut locked, evicted),
            None => {}
        }
        let mut oldest = None;
        match self.arena.room(self.arena.chain(locked.first()), chain_max) {
            Room::Evict(index) if self.arena.claim(index).is_some() => {
                self.remove_from_chain(&mut locked, index);
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

    /// Removes `key` if it is not held; otherwise holds it too.
    pub(crate) fn remove_or_pin(&self, key: &L::Key<'_>) -> Removal<'_, W> {
        let mut locked = self.buckets.lock(self.bucket(L::hashed(key)));
        let Some(index) = self.find_live(&locked, key) else {
            return Removal::Absent;
        };
        loop {
            if self.arena.claim(index).is_some() {
                self.remove_from_chain(&mut locked, index);
                drop(locked);
                drop(self.arena.vacant(index));
                return Removal::Removed;
            }
            let state = self.arena.slot(index).state();
            if !state.has(State::LIVE) {
                // The clock hand has claimed it.
                return Removal::Absent;
            }
            if let Some(pin) = self.pin_at(index, state, State::LIVE) {
                return Removal::Pinned(pin);
            }
        }
    }

    /// Moves the entry in slot `index` to `vacant`, and leaves the slot claimed, in no chain. Returns
    /// false if the entry is held or changing. For a moment a search may find neither slot;
    /// insertions and removals always find one.
    pub(crate) fn relocate(&self, index: u32, vacant: Vacant<'_, W>) -> bool {
        let slot = self.arena.slot(index);
        let seen = slot.state();
        if !seen.has(State::LIVE) {
            return false;
        }
        let mut locked = self.buckets.lock(self.bucket(L::hashed_in(slot)));
        // If it is still the same entry, the locked bucket is the right one.
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

    /// Returns the first entry after `after` with this hash and `flag`, and the number of links
    /// walked.
    #[inline]
    fn search(
        &self,
        hashed: L::Hashed,
        flag: u64,
        after: Place<'_, W>,
    ) -> (Option<Pin<'_, W>>, u64) {
        let bucket = self.bucket(hashed);
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
                    && L::hashed_in(slot) == hashed
                    && let Some(pin) = self.pin_at(index, state, flag)
                {
                    return (Some(pin), links);
                }
                before = Some((slot, state));
            }
        }
    }

    /// Returns true if the slot of `before` still has the same entry, in its chain, directly before
    /// `at`.
    #[inline]
    fn leads_to(&self, bucket: u32, before: Place<'_, W>, at: Link) -> bool {
        let Some((slot, seen)) = before else {
            return self.buckets.first(bucket) == at;
        };
        // A slot that was removed from its chain links to the end of a free list, or into one.
        let is_before = slot.next() == at;
        let now = slot.state();
        is_before && now.is_same_entry(seen) && !now.has(State::FREE)
    }

    /// Pins the entry at `index` whose state was `seen`, if it still has `flag`.
    #[inline]
    fn pin_at(&self, index: u32, seen: State, flag: u64) -> Option<Pin<'_, W>> {
        let slot = self.arena.slot(index);
        let held = slot.update(seen, |state| {
            let can_hold = state.is_same_entry(seen) && state.can_pin() && state.has(flag);
            can_hold.then(|| state.with_pin())
        });
        held.is_ok().then(|| Pin::adopt(slot, index))
    }
}
