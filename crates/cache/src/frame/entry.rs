//! Finding and claiming frames: what the page and the buffer cache share.

use super::{Frame, FrameKey, FrameLayout, Frames, Holder, LockedFrame, NewFrame};
use crate::sync::Relaxed;
use crate::table::{Found, Inserted, Layout, State, Taken};
use std::ops::Range;
use std::sync::Arc;

/// What became of asking for a frame.
#[derive(Debug)]
pub(crate) enum FrameEntry<'a> {
    Uptodate(Frame<'a>),
    /// Another is filling it.
    Busy(FrameWait<'a>),
    /// The caller is to fill it.
    New(NewFrame),
    /// Every frame is held.
    Full,
}

/// What became of asking for a frame to change.
#[derive(Debug)]
pub(crate) enum FrameLock<'a> {
    Locked(LockedFrame<'a>),
    /// Another is filling or changing it.
    Busy(FrameWait<'a>),
    /// It is pinned, and the caller gave up waiting for that.
    Held,
    /// It is not here.
    Absent,
}

/// A frame that another thread is filling or changing.
#[derive(Debug)]
pub(crate) struct FrameWait<'a> {
    frames: &'a Frames,
    holder: Holder,
    key: FrameKey,
    index: u32,
    seen: State,
}

impl<'a> FrameWait<'a> {
    /// Clears `flag` of the frame; says whether this call cleared it.
    pub(crate) fn take_flag(&self, flag: u64) -> bool {
        self.frames
            .arena
            .slot(self.index)
            .take_flag_of(self.seen, flag)
    }

    /// Parks until it is filled or given up. `None` if it was given up, or
    /// evicted since: then whoever wants it tries themselves.
    pub(crate) fn wait(self) -> Option<Frame<'a>> {
        let slot = self.frames.arena.slot(self.index);
        self.frames.waits.wait(slot, self.index, self.seen);
        match self.frames.index(self.holder).get_again(&self.key) {
            Some(Found::Pinned(pin, before)) => Some(self.frames.used(pin, before)),
            _ => None,
        }
    }
}

impl Frames {
    /// The uptodate frame for `key`, pinned.
    #[inline]
    pub(crate) fn get(&self, holder: Holder, key: FrameKey) -> Option<Frame<'_>> {
        match self.index(holder).get(&key) {
            Some(Found::Pinned(pin, before)) => Some(self.used(pin, before)),
            _ => None,
        }
    }

    #[inline]
    fn used<'a>(&'a self, pin: crate::table::Pin<'a, 2>, before: State) -> Frame<'a> {
        if before.has(State::READAHEAD) {
            self.pages_used.fetch_add(1, Relaxed);
        }
        Frame::new(self, pin)
    }

    fn found<'a>(&'a self, holder: Holder, key: FrameKey, found: Found<'a, 2>) -> FrameEntry<'a> {
        match found {
            Found::Pinned(pin, before) => FrameEntry::Uptodate(self.used(pin, before)),
            Found::Busy(index, seen) => FrameEntry::Busy(FrameWait {
                frames: self,
                holder,
                key,
                index,
                seen,
            }),
            Found::Saturated => FrameEntry::Full,
        }
    }

    /// The uptodate frame for `key`, for the caller to change. Waits for those who look at it,
    /// unless `gives_up` says so meanwhile.
    pub(crate) fn lock(
        &self,
        holder: Holder,
        key: FrameKey,
        gives_up: impl Fn() -> bool,
    ) -> FrameLock<'_> {
        match self.index(holder).lock(&key) {
            Some(Taken::Locked(index, before)) => {
                if before.has(State::READAHEAD) {
                    self.pages_used.fetch_add(1, Relaxed);
                }
                LockedFrame::new(self, holder, index, gives_up)
                    .map_or(FrameLock::Held, FrameLock::Locked)
            }
            Some(Taken::Busy(index, seen)) => FrameLock::Busy(FrameWait {
                frames: self,
                holder,
                key,
                index,
                seen,
            }),
            None => FrameLock::Absent,
        }
    }

    /// The frame for `key`, or a new one for the caller to fill. Meant for after
    /// a [`Frames::get`] that found nothing, so it counts no lookup.
    pub(crate) fn get_or_insert(self: &Arc<Self>, holder: Holder, key: FrameKey) -> FrameEntry<'_> {
        // First without a frame in hand: nothing need be evicted to wait.
        if let Some(found) = self.index(holder).get_again(&key) {
            return self.found(holder, key, found);
        }
        let Some(vacant) = self.take() else {
            return FrameEntry::Full;
        };
        let flags = State::BUSY | holder.flags();
        let inserted = self
            .index(holder)
            .get_or_insert(&key, vacant, flags, |slot| slot.set_aux(0));
        match inserted {
            Inserted::New(index) => FrameEntry::New(NewFrame::new(self, holder, index)),
            Inserted::Existing(found) => self.found(holder, key, found),
        }
    }

    /// A new frame for `key` if it is not there, neither waiting nor counting.
    pub(crate) fn insert_absent(
        self: &Arc<Self>,
        holder: Holder,
        key: FrameKey,
    ) -> Option<NewFrame> {
        if self.index(holder).contains(&key) {
            return None;
        }
        let vacant = self.take()?;
        let flags = State::BUSY | holder.flags();
        match self
            .index(holder)
            .get_or_insert(&key, vacant, flags, |slot| slot.set_aux(0))
        {
            Inserted::New(index) => Some(NewFrame::new(self, holder, index)),
            Inserted::Existing(_) => None,
        }
    }

    /// Drops the frame for `key`; false if it is not there, or held.
    pub(crate) fn remove(&self, holder: Holder, key: FrameKey) -> bool {
        let removed = self.index(holder).take_out(&key);
        if removed.is_some_and(|state| state.has(State::READAHEAD)) {
            self.pages_wasted.fetch_add(1, Relaxed);
        }
        removed.is_some()
    }

    /// Drops the frames of `object` with an index in `range` that nobody holds.
    pub(crate) fn remove_range(&self, holder: Holder, object: u64, range: Range<u64>) {
        self.each_in(object, range, |key| {
            self.remove(holder, key);
        });
    }

    /// Drops the frames of `object` with an index in `range`, dirty or not, but for those that are
    /// being filled or changed. Waits for those who look at one.
    pub(crate) fn discard_range(&self, holder: Holder, object: u64, range: Range<u64>) {
        self.each_in(object, range, |key| {
            if let FrameLock::Locked(frame) = self.lock(holder, key, || false) {
                frame.discard();
            }
        });
    }

    /// Calls `visit` for all frames of `object` with an index in `range`, and perhaps for some that
    /// are not there. Looks each index up, or at each frame, whichever are fewer.
    fn each_in(&self, object: u64, range: Range<u64>, visit: impl Fn(FrameKey)) {
        let frames = self.arena.touched();
        if range.end.saturating_sub(range.start) <= u64::from(frames) {
            for index in range {
                visit(FrameKey { object, index });
            }
            return;
        }
        for frame in 0..frames {
            let key = FrameLayout::hashed_in(self.arena.slot(frame));
            if key.object == object && range.contains(&key.index) {
                visit(key);
            }
        }
    }

    /// Ends the filling of frame `index`, with `pins` for the caller.
    pub(super) fn fill(&self, index: u32, pins: u32) {
        if self.arena.slot(index).fill(pins) {
            self.waits.wake(index);
        }
    }

    /// Takes back the frame `index`, which was to be filled.
    pub(super) fn abandon(&self, holder: Holder, index: u32) {
        if self.index(holder).abandon(index) {
            self.waits.wake(index);
        }
    }
}
