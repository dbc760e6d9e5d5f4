//! Tables where several entries may have the same hash: searches that know the hash alone and go from
//! one entry to the next, and deleting and moving what nobody holds.
//!
//! # How a search goes on where it was
//! The entry found is pinned, so it keeps its place, and what is behind it in its chain was there
//! before it: new entries come in front. So a search that starts behind it sees no entry twice, as
//! long as every slot it passes is in the chain behind the one before. A slot reused under the
//! reader could be in front again. Therefore, after the state of a slot is read, the one before is
//! looked at again: if it is the same entry and still leads there, both were in their places. If
//! not, the search starts again, behind the pinned entry.
//!
//! Pins taken here say nothing of use: that is for the holder to say.

use super::chain_bound::Room;
use super::hold::{Added, Removed};
use super::link::Link;
use super::{HashFunction, Layout, Pin, Slot, State, Table, Vacant};

/// Where a search stands: on a slot that was in this state, or before the first.
type Place<'a, const W: usize> = Option<(&'a Slot<W>, State)>;

impl<L: Layout<W>, H: HashFunction<L::Hashed>, const W: usize> Table<L, H, W>
where
    L::Hashed: PartialEq,
{
    /// The first entry with this hash and `flag`, pinned.
    #[inline]
    pub(crate) fn find_first(&self, hashed: L::Hashed, flag: u64) -> Option<Pin<'_, W>> {
        let (found, links) = self.search(hashed, flag, None);
        self.count(|| hashed.into(), found.is_some(), links);
        found
    }

    /// The next entry behind `held` with its hash and `flag`, pinned. Counts no lookup.
    pub(crate) fn find_next(&self, held: &Slot<W>, flag: u64) -> Option<Pin<'_, W>> {
        self.search(L::hashed_in(held), flag, Some((held, held.state())))
            .0
    }

    /// The entry of `key`, pinned, wherever it is just moved. Counts no lookup.
    pub(crate) fn hold(&self, key: &L::Key<'_>) -> Option<Pin<'_, W>> {
        let locked = self.buckets.lock(self.bucket(L::hashed(key)));
        let index = self.find_live(&locked, key)?;
        self.hold_at(index, self.arena.slot(index).state(), State::LIVE)
    }

    /// Puts `key` into `vacant` with `flags` unless it is in the table already. If its chain has
    /// `chain_max` entries, `evicted` is told of the one that goes, by its slot.
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
                // Slots go back behind the lock.
                drop(locked);
                return Added::Existing;
            }
            Some(evicted) => self.unlink_locked(&mut locked, evicted),
            None => {}
        }
        let mut oldest = None;
        match self.arena.room(self.arena.chain(locked.first()), chain_max) {
            Room::Instead(index) if self.arena.claim(index).is_some() => {
                self.unlink_locked(&mut locked, index);
                evicted(index);
                oldest = Some(self.arena.vacant(index));
            }
            Room::Free => {}
            Room::Instead(_) | Room::None => {
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

    /// Takes `key` out if nobody holds it; otherwise holds it too.
    pub(crate) fn remove_or_hold(&self, key: &L::Key<'_>) -> Removed<'_, W> {
        let mut locked = self.buckets.lock(self.bucket(L::hashed(key)));
        let Some(index) = self.find_live(&locked, key) else {
            return Removed::Absent;
        };
        loop {
            if self.arena.claim(index).is_some() {
                self.unlink_locked(&mut locked, index);
                drop(locked);
                drop(self.arena.vacant(index));
                return Removed::Out;
            }
            let state = self.arena.slot(index).state();
            if !state.has(State::LIVE) {
                // The clock hand has it.
                return Removed::Absent;
            }
            if let Some(pin) = self.hold_at(index, state, State::LIVE) {
                return Removed::Held(pin);
            }
        }
    }

    /// Moves the entry in slot `index` to `vacant`, and leaves the slot claimed, in no chain; false
    /// if it is held or changing. For a moment a search may find neither; inserting and removing
    /// find the one or the other.
    pub(crate) fn relocate(&self, index: u32, vacant: Vacant<'_, W>) -> bool {
        let slot = self.arena.slot(index);
        let seen = slot.state();
        if !seen.has(State::LIVE) {
            return false;
        }
        let mut locked = self.buckets.lock(self.bucket(L::hashed_in(slot)));
        // If it is the same entry still, that is its bucket.
        if !slot.state().is_same_entry(seen) {
            return false;
        }
        let Some(state) = self.arena.claim(index) else {
            return false;
        };
        vacant.slot().copy_from(slot);
        Self::link(&mut locked, vacant, state.flags());
        self.unlink_moved(&mut locked, index);
        true
    }

    /// The first entry behind `after` with this hash and `flag`, and the links walked.
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
                    && let Some(pin) = self.hold_at(index, state, flag)
                {
                    return (Some(pin), links);
                }
                before = Some((slot, state));
            }
        }
    }

    /// Whether the slot that `before` stands on is still the same entry, in its chain, and in front
    /// of `at`.
    #[inline]
    fn leads_to(&self, bucket: u32, before: Place<'_, W>, at: Link) -> bool {
        let Some((slot, seen)) = before else {
            return self.buckets.first(bucket) == at;
        };
        // A slot taken out of its chain leads to no bucket's end or into a free list.
        let is_before = slot.next() == at;
        let now = slot.state();
        is_before && now.is_same_entry(seen) && !now.has(State::FREE)
    }

    /// Pins the entry that was `seen` at `index`, as long as it has `flag`.
    #[inline]
    fn hold_at(&self, index: u32, seen: State, flag: u64) -> Option<Pin<'_, W>> {
        let slot = self.arena.slot(index);
        let held = slot.update(seen, |state| {
            let can_hold = state.is_same_entry(seen) && state.can_pin() && state.has(flag);
            can_hold.then(|| state.held())
        });
        held.is_ok().then(|| Pin::adopt(slot, index))
    }
}
