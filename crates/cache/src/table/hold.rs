//! Holding entries and taking them: what a walk does with the slot that it was after.

use super::{Arena, Slot, State};

/// An entry held in place: not evicted nor reused while this lives.
#[derive(Debug)]
pub struct Pin<'a, const W: usize> {
    slot: &'a Slot<W>,
    index: u32,
}

impl<'a, const W: usize> Pin<'a, W> {
    /// The entry's slot.
    #[must_use]
    #[inline]
    pub fn slot(&self) -> &'a Slot<W> {
        self.slot
    }

    /// The slot's number.
    #[must_use]
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Keeps the pin, for whoever gives it back to the slot.
    #[inline]
    pub(crate) fn into_index(self) -> u32 {
        let index = self.index;
        std::mem::forget(self);
        index
    }

    /// The pin that the caller took on the slot some other way.
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

/// What a lookup that pins found.
#[derive(Debug)]
pub enum Found<'a, const W: usize> {
    /// The entry, pinned, and the state that it was in before.
    Pinned(Pin<'a, W>, State),
    /// The entry, still being filled: its slot and state.
    Busy(u32, State),
    /// The entry, with as many pins as there can be.
    Saturated,
}

/// What became of asking for an entry for oneself.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is busy, by the caller: its slot, and the state that it was in before. Who pinned it
    /// earlier may still look at it.
    Locked(u32, State),
    /// It was busy already: its slot and state.
    Busy(u32, State),
}

/// What became of an entry to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// It is in the table now.
    New,
    /// It was there already.
    Existing,
    /// It is not in the table: its chain is full of entries that are held.
    NoRoom,
}

/// What became of an entry to be deleted.
#[derive(Debug)]
pub(crate) enum Removed<'a, const W: usize> {
    /// It is out of the table.
    Out,
    /// Others hold it; so does the caller now.
    Held(Pin<'a, W>),
    /// It was not in the table.
    Absent,
}

/// What a visitor says of a slot with the right key.
#[derive(Debug)]
pub(crate) enum Visit<T> {
    /// It is the entry sought, and this is what was wanted of it.
    Found(T),
    /// It is not the entry sought, which may be behind it.
    Pass,
    /// The slot changed underneath: the walk starts again.
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
    /// Pins the entry that was in `state` when its key was compared.
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

    /// Why an entry cannot be pinned.
    #[cold]
    fn refused<'a>(slot: &Slot<W>, index: u32, state: State) -> Visit<Found<'a, W>> {
        if !state.has(State::LIVE) {
            return Visit::Pass;
        }
        if !slot.state().is_same_entry(state) {
            // The key may not have been this entry's.
            return Visit::Raced;
        }
        Visit::Found(if state.has(State::BUSY) {
            Found::Busy(index, state)
        } else {
            Found::Saturated
        })
    }

    /// Whether a copy is whole that was read between these states, in which the entry was not found
    /// before, or changed.
    #[cold]
    pub(super) fn judge_copy(slot: &Slot<W>, before: State, after: State) -> Visit<()> {
        if !before.has(State::LIVE) {
            return Visit::Pass;
        }
        if !after.is_same_entry(before) {
            return Visit::Raced;
        }
        if !after.has(State::REFERENCED) {
            // Whoever changed it instead says no less.
            let _ = slot.exchange(after, after.referenced());
        }
        Visit::Found(())
    }

    /// Whether the entry can be found that was `seen` when its key was compared.
    pub(crate) fn see(&self, index: u32, seen: State) -> Visit<()> {
        if !seen.has(State::LIVE) {
            Visit::Pass
        } else if self.slot(index).state().is_same_entry(seen) {
            Visit::Found(())
        } else {
            Visit::Raced
        }
    }

    /// Clears `flag` of the entry that was `seen` when its key was compared; says whether this call
    /// cleared it.
    pub(crate) fn take_flag(&self, index: u32, seen: State, flag: u64) -> Visit<bool> {
        if seen.has(State::LIVE) && self.slot(index).take_flag_of(seen, flag) {
            return Visit::Found(true);
        }
        self.see(index, seen).map(|()| false)
    }

    /// Makes the entry busy that was `seen` when its key was compared, unless it is.
    pub(crate) fn lock(&self, index: u32, seen: State) -> Visit<Taken> {
        let locked = self.slot(index).update(seen, |state| {
            let can_lock = state.is_same_entry(seen) && state.can_lock();
            can_lock.then(|| state.locked())
        });
        match locked {
            Ok(state) => Visit::Found(Taken::Locked(index, state)),
            Err(state) if !state.is_same_entry(seen) => Visit::Raced,
            Err(state) if !state.has(State::LIVE) => Visit::Pass,
            Err(state) => Visit::Found(Taken::Busy(index, state)),
        }
    }

    /// Claims the entry `index`, which is not reused meanwhile, and returns the state it had;
    /// `None` if it is held, or was claimed by another.
    pub(crate) fn claim(&self, index: u32) -> Option<State> {
        let slot = self.slot(index);
        let claim = |state: State| state.can_claim().then(|| state.claimed());
        slot.update(slot.state(), claim).ok()
    }

    /// Claims the entry `index`, which the caller has made busy, and returns the state it had.
    pub(crate) fn claim_busy(&self, index: u32) -> State {
        let slot = self.slot(index);
        let (Ok(state) | Err(state)) = slot.update(slot.state(), |state| Some(state.claimed()));
        state
    }
}
