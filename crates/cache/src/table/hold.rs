//! Operations of a walk on the slot that it was looking for: pin, lock and claim.

use super::{Arena, Slot, State};

/// A pinned entry, which is neither evicted nor reused while this exists.
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

    /// Keeps the pin. The caller must give it back to the slot.
    #[inline]
    pub(crate) fn into_index(self) -> u32 {
        let index = self.index;
        std::mem::forget(self);
        index
    }

    /// Adopts a pin that the caller took on the slot in another way.
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

/// The result of a lookup that pins.
#[derive(Debug)]
pub enum Found<'a, const W: usize> {
    /// The pinned entry, and its previous state.
    Pinned(Pin<'a, W>, State),
    /// The entry is being filled: its slot and state.
    Busy(u32, State),
    /// The entry has the largest number of pins.
    Saturated,
}

/// The result of an attempt to make an entry busy.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The caller made the entry busy: its slot, and its previous state. Earlier pins may still
    /// exist.
    Locked(u32, State),
    /// The entry was busy already: its slot and state.
    Busy(u32, State),
}

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The entry was added to the table.
    New,
    /// The entry was in the table already.
    Existing,
    /// The entry was not added: its chain is full of held entries.
    NoRoom,
}

/// The result of a deletion.
#[derive(Debug)]
pub(crate) enum Removed<'a, const W: usize> {
    /// The entry was removed from the table.
    Out,
    /// Other threads hold the entry, and now the caller does too.
    Held(Pin<'a, W>),
    /// The entry was not in the table.
    Absent,
}

/// The verdict of a visitor on a slot with the right key.
#[derive(Debug)]
pub(crate) enum Visit<T> {
    /// It is the wanted entry, with this result.
    Found(T),
    /// It is not the wanted entry, which may follow in the chain.
    Pass,
    /// The slot changed concurrently: the walk starts again.
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

    /// Returns why an entry cannot be pinned.
    #[cold]
    fn refused<'a>(slot: &Slot<W>, index: u32, state: State) -> Visit<Found<'a, W>> {
        if !state.has(State::LIVE) {
            return Visit::Pass;
        }
        if !slot.state().is_same_entry(state) {
            // The key may have belonged to another entry.
            return Visit::Raced;
        }
        Visit::Found(if state.has(State::BUSY) {
            Found::Busy(index, state)
        } else {
            Found::Saturated
        })
    }

    /// Decides whether a copy that was read between these two states is consistent. This is for
    /// entries that had not been found before, or that changed.
    #[cold]
    pub(super) fn check_copy(slot: &Slot<W>, before: State, after: State) -> Visit<()> {
        if !before.has(State::LIVE) {
            return Visit::Pass;
        }
        if !after.is_same_entry(before) {
            return Visit::Raced;
        }
        if !after.has(State::REFERENCED) {
            // If another thread changed it instead, the entry is referenced anyway.
            let _ = slot.exchange(after, after.referenced());
        }
        Visit::Found(())
    }

    /// Checks that the entry can be found whose state was `seen` when its key was compared.
    pub(crate) fn check_present(&self, index: u32, seen: State) -> Visit<()> {
        if !seen.has(State::LIVE) {
            Visit::Pass
        } else if self.slot(index).state().is_same_entry(seen) {
            Visit::Found(())
        } else {
            Visit::Raced
        }
    }

    /// Clears `flag` of the entry whose state was `seen` when its key was compared. Returns whether
    /// this call cleared it.
    pub(crate) fn take_flag(&self, index: u32, seen: State, flag: u64) -> Visit<bool> {
        if seen.has(State::LIVE) && self.slot(index).take_flag_of(seen, flag) {
            return Visit::Found(true);
        }
        self.check_present(index, seen).map(|()| false)
    }

    /// Makes the entry busy whose state was `seen` when its key was compared, unless it is busy
    /// already.
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

    /// Claims the entry `index`, which is not reused meanwhile, and returns its previous state.
    /// Returns `None` if it is held, or was claimed by another thread.
    pub(crate) fn claim(&self, index: u32) -> Option<State> {
        let slot = self.slot(index);
        let claim = |state: State| state.can_claim().then(|| state.claimed());
        slot.update(slot.state(), claim).ok()
    }

    /// Claims the entry `index`, which the caller has made busy, and returns its previous state.
    pub(crate) fn claim_busy(&self, index: u32) -> State {
        let slot = self.slot(index);
        let (Ok(state) | Err(state)) = slot.update(slot.state(), |state| Some(state.claimed()));
        state
    }
}
