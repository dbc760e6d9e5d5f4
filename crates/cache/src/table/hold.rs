//! Operations on a slot that a lookup has found: pin, lock, claim and others.

use super::{Arena, Slot, State};

/// A pinned entry. While this value exists, the entry is not evicted, and its slot is not reused.
#[derive(Debug)]
pub struct Pin<'a, const W: usize> {
    slot: &'a Slot<W>,
    index: u32,
}

impl<'a, const W: usize> Pin<'a, W> {
    /// Returns the entry's slot.
    #[must_use]
    #[inline]
    pub fn slot(&self) -> &'a Slot<W> {
        self.slot
    }

    /// Returns the slot's number.
    #[must_use]
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the number of the slot, without removing the pin. The caller must remove the pin later.
    #[inline]
    pub(crate) fn into_index(self) -> u32 {
        let index = self.index;
        std::mem::forget(self);
        index
    }

    /// Creates a guard for a pin that the caller has added to the slot's state.
    pub(crate) fn adopt(slot: &'a Slot<W>, index: u32) -> Self {
        Self { slot, index }
    }
}

impl<const W: usize> Drop for Pin<'_, W> {
    #[inline]
    fn drop(&mut self) {
        self.slot.unpin();
    }
}

/// The result of a lookup that pins the entry.
#[derive(Debug)]
pub enum Found<'a, const W: usize> {
    /// The entry was pinned. Contains its previous state.
    Pinned(Pin<'a, W>, State),
    /// The entry is being filled or changed. Contains the number of its slot, and its state.
    Busy(u32, State),
    /// The entry was not pinned, because it has the largest possible number of pins.
    Saturated,
}

/// The result of an attempt to make an entry busy.
#[derive(Debug)]
pub(crate) enum LockAttempt {
    /// The caller made the entry busy. Contains the number of its slot, and its previous state. Other
    /// threads may still have the entry pinned.
    Locked(u32, State),
    /// The entry was busy already. Contains the number of its slot, and its state.
    Busy(u32, State),
}

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The entry was added to the table.
    New,
    /// The entry was in the table already.
    Existing,
    /// The entry was not added, because its chain is full and contains no evictable entry.
    NoRoom,
}

/// The result of [`Table::remove_or_pin`](super::Table::remove_or_pin).
#[derive(Debug)]
pub(crate) enum Removal<'a, const W: usize> {
    /// The entry was removed from the table.
    Removed,
    /// The entry is in use and was not removed. The caller has pinned it.
    Pinned(Pin<'a, W>),
    /// The entry was not in the table.
    Absent,
}

/// The result of an operation on a slot whose key matched the wanted key.
#[derive(Debug)]
pub(crate) enum Visit<T> {
    /// The slot has the wanted entry. Contains the result of the operation.
    Found(T),
    /// The entry was evicted or removed. The walk continues at the next slot.
    Pass,
    /// The slot was reused after its key was compared. The walk must start again.
    Raced,
}

impl<T> Visit<T> {
    pub(super) fn map<U>(self, to: impl FnOnce(T) -> U) -> Visit<U> {
        match self {
            Self::Found(found) => Visit::Found(to(found)),
            Self::Pass => Visit::Pass,
            Self::Raced => Visit::Raced,
        }
    }
}

impl<const W: usize> Arena<W> {
    /// Pins the entry that was in state `seen` when its key was compared.
    #[inline]
    pub(crate) fn pin(&self, index: u32, seen: State) -> Visit<Found<'_, W>> {
        let slot = self.slot(index);
        let mut state = seen;
        loop {
            if !state.is_same_entry(seen) {
                return Visit::Raced;
            }
            if !state.can_pin() {
                return Self::refused(slot, index, state);
            }
            match slot.exchange(state, state.pinned()) {
                Ok(()) => return Visit::Found(Found::Pinned(Pin { slot, index }, state)),
                Err(now) => state = now,
            }
        }
    }

    /// Returns the reason why an entry in state `state` cannot be pinned.
    #[cold]
    fn refused<'a>(slot: &Slot<W>, index: u32, state: State) -> Visit<Found<'a, W>> {
        if !state.has(State::LIVE) {
            return Visit::Pass;
        }
        if !slot.state().is_same_entry(state) {
            // The compared key may belong to a later entry of the slot.
            return Visit::Raced;
        }
        Visit::Found(if state.has(State::BUSY) {
            Found::Busy(index, state)
        } else {
            Found::Saturated
        })
    }

    /// Returns the result of `read` for `slot`, and marks the entry as referenced. `before` is the state of
    /// the entry when its key was compared.
    #[inline]
    pub(super) fn copy<T>(
        slot: &Slot<W>,
        before: State,
        read: &impl Fn(&Slot<W>) -> T,
    ) -> Visit<T> {
        let value = read(slot);
        let after = slot.state();
        if after == before && before.is_live_and_referenced() {
            Visit::Found(value)
        } else {
            Self::check_copy(slot, before, after).map(|()| value)
        }
    }

    /// Checks the consistency of a copy that was read after the state `before` and before the state
    /// `after`. If the copy is consistent, marks the entry as referenced.
    #[cold]
    fn check_copy(slot: &Slot<W>, before: State, after: State) -> Visit<()> {
        if !before.has(State::LIVE) {
            return Visit::Pass;
        }
        if !after.is_same_entry(before) {
            return Visit::Raced;
        }
        if !after.has(State::REFERENCED) {
            // If the exchange fails, another thread is using the entry, and the mark is not important.
            let _ = slot.exchange(after, after.referenced());
        }
        Visit::Found(())
    }

    /// Checks whether an entry was live when its key was compared, and is still in the slot. `seen` is the
    /// state of the entry at that time.
    pub(crate) fn check_present(&self, index: u32, seen: State) -> Visit<()> {
        if !seen.has(State::LIVE) {
            Visit::Pass
        } else if self.slot(index).state().is_same_entry(seen) {
            Visit::Found(())
        } else {
            Visit::Raced
        }
    }

    /// Checks as [`Arena::check_present`] does. The result is true if no thread was filling or changing the
    /// entry when its key was compared.
    pub(crate) fn check_uptodate(&self, index: u32, seen: State) -> Visit<bool> {
        let present = self.check_present(index, seen);
        present.map(|()| !seen.has(State::BUSY))
    }

    /// Clears `flag` of an entry. `seen` is the state of the entry when its key was compared. The result
    /// is true if the flag was set and this call cleared it.
    pub(crate) fn take_flag(&self, index: u32, seen: State, flag: u64) -> Visit<bool> {
        if seen.has(State::LIVE) && self.slot(index).take_flag_of(seen, flag) {
            return Visit::Found(true);
        }
        self.check_present(index, seen).map(|()| false)
    }

    /// Makes an entry busy, unless it is busy already. `seen` is the state of the entry when its key was
    /// compared.
    pub(crate) fn lock(&self, index: u32, seen: State) -> Visit<LockAttempt> {
        let locked = self.slot(index).update(seen, |state| {
            let can_lock = state.is_same_entry(seen) && state.can_lock();
            can_lock.then(|| state.locked())
        });
        match locked {
            Ok(state) => Visit::Found(LockAttempt::Locked(index, state)),
            Err(state) if !state.is_same_entry(seen) => Visit::Raced,
            Err(state) if !state.has(State::LIVE) => Visit::Pass,
            Err(state) => Visit::Found(LockAttempt::Busy(index, state)),
        }
    }

    /// Claims the entry in slot `index`, and returns its previous state. Returns `None` if the entry is
    /// not evictable, or was claimed by another thread. The caller must prevent the reuse of the slot during
    /// the call, normally by a lock of the bucket.
    pub(crate) fn claim(&self, index: u32) -> Option<State> {
        let slot = self.slot(index);
        let claim = |state: State| state.can_claim().then(|| state.claimed());
        slot.update(slot.state(), claim).ok()
    }

    /// Claims the entry in slot `index`, which the caller must have made busy. Returns its previous state.
    pub(crate) fn claim_busy(&self, index: u32) -> State {
        let slot = self.slot(index);
        let (Ok(state) | Err(state)) = slot.update(slot.state(), |state| Some(state.claimed()));
        state
    }
}
