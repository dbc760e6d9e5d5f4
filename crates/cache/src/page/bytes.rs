//! Converts frames to slices: the second and last place with unsafe code.
//!
//! It is sound because of the life of a frame, as drawn in [`super`]:
//! - A frame's bytes are written only through its [`NewPage`] or [`LockedPage`]. While the slot is
//!   busy, one of these exists, for the thread whose exchange of the state word made it busy. A
//!   busy slot cannot be pinned or evicted, nor made busy again.
//! - The bytes are read only through [`Page`], which holds a pin. A pinned slot cannot be evicted.
//!   It can become busy, but its [`LockedPage`] is created only after the last pin is released.
//! - Filling and changing end with a release of the state word, which pinning and locking acquire.
//!   Unpinning is a release, which eviction and the wait for the last pin acquire. So writes and
//!   reads of different threads are ordered.
#![allow(unsafe_code, reason = "makes slices of frames")]

use super::key::PAGE_WORDS;
use super::pool::{Frames, Holder};
use crate::sync::Relaxed;
use crate::table::{Pin, Slot, State};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// An uptodate page, pinned while this exists.
///
/// It has a pointer, not a slice: a slice would have to stay valid until the drop has returned,
/// while the pin already ends inside it.
#[derive(Debug)]
pub struct Page<'a> {
    pin: Pin<'a, PAGE_WORDS>,
    bytes: NonNull<[u8]>,
}

// SAFETY: as for the `&[u8]` that `bytes` returns; the pin may be sent to another thread.
unsafe impl Send for Page<'_> {}
// SAFETY: as for `Send`: a shared frame provides only shared slices.
unsafe impl Sync for Page<'_> {}

impl<'a> Page<'a> {
    #[inline]
    pub(super) fn new(frames: &'a Frames, pin: Pin<'a, PAGE_WORDS>) -> Self {
        let bytes = frames.memory.bytes(pin.index());
        Self { pin, bytes }
    }

    /// Returns the frame's slot.
    #[inline]
    pub(super) fn slot(&self) -> &'a Slot<PAGE_WORDS> {
        self.pin.slot()
    }
}

impl Deref for Page<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frame is inside the mapping, which outlives `'a`. It was filled before it
        // could be pinned, and no thread writes to it while it is pinned, which it is as long as
        // `self` lives. Zeroed or filled, its bytes are initialised.
        unsafe { self.bytes.as_ref() }
    }
}

/// A page to fill. It may be sent to another thread. If it is dropped before [`NewPage::complete`],
/// the page is removed, as after a failed read, and the threads that wait for it are woken.
#[derive(Debug)]
#[must_use]
pub struct NewPage {
    frames: Arc<Frames>,
    holder: Holder,
    index: u32,
    complete: bool,
}

impl NewPage {
    /// Creates the guard, once, for the thread that inserted `index` as busy.
    pub(super) fn new(frames: &Arc<Frames>, holder: Holder, index: u32) -> Self {
        Self {
            frames: Arc::clone(frames),
            holder,
            index,
            complete: false,
        }
    }

    /// Makes the page, which is filled, uptodate.
    pub fn complete(self) {
        self.fill(0);
    }

    /// Does what [`NewPage::complete`] does, and returns the page pinned. `frames` must be the pool
    /// of the frame.
    pub(super) fn complete_pinned(self, frames: &Arc<Frames>) -> Page<'_> {
        assert!(
            Arc::ptr_eq(&self.frames, frames),
            "the frame is of another pool"
        );
        let index = self.index;
        self.fill(1);
        Page::new(frames, Pin::adopt(frames.arena.slot(index), index))
    }

    /// Ends the filling, with `pins` for the caller.
    fn fill(mut self, pins: u32) {
        if self.slot().state().has(State::READAHEAD) {
            self.frames.pages_ahead.fetch_add(1, Relaxed);
        }
        self.complete = true;
        self.frames.fill(self.index, pins);
    }

    pub(super) fn slot(&self) -> &Slot<PAGE_WORDS> {
        self.frames.arena.slot(self.index)
    }
}

impl Drop for NewPage {
    fn drop(&mut self) {
        if !self.complete {
            self.frames.abandon(self.holder, self.index);
        }
    }
}

impl Deref for NewPage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for `deref_mut`; a shared borrow of `self` excludes that.
        unsafe { self.frames.memory.bytes(self.index).as_ref() }
    }
}

impl DerefMut for NewPage {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the frame is inside the mapping, which `self.frames` keeps alive. The slot is
        // busy until `self` is consumed, so it cannot be pinned, and no other guard of it exists.
        // Zeroed or filled, the bytes are initialised.
        unsafe { self.frames.memory.bytes(self.index).as_mut() }
    }
}

/// An uptodate page to change. No thread has it pinned while this exists.
#[derive(Debug)]
pub struct LockedPage<'a> {
    frames: &'a Frames,
    holder: Holder,
    index: u32,
}

impl<'a> LockedPage<'a> {
    /// Creates the guard, once, for the thread that made the uptodate frame `index` busy. Waits
    /// until no thread has it pinned. If `is_cancelled` returns true meanwhile, returns `None` and
    /// leaves the frame as it was before.
    pub(super) fn new(
        frames: &'a Frames,
        holder: Holder,
        index: u32,
        is_cancelled: impl Fn() -> bool,
    ) -> Option<Self> {
        if !frames.arena.slot(index).wait_unpinned(is_cancelled) {
            frames.fill(index, 0);
            return None;
        }
        Some(Self {
            frames,
            holder,
            index,
        })
    }

    /// Returns the frame's slot.
    #[inline]
    pub(super) fn slot(&self) -> &'a Slot<PAGE_WORDS> {
        self.frames.arena.slot(self.index)
    }

    /// Removes the frame from the cache, dirty or not.
    pub(super) fn discard(self) {
        let (frames, holder, index) = (self.frames, self.holder, self.index);
        std::mem::forget(self);
        frames.abandon(holder, index);
    }
}

impl Drop for LockedPage<'_> {
    fn drop(&mut self) {
        self.frames.fill(self.index, 0);
    }
}

impl Deref for LockedPage<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for `deref_mut`; a shared borrow of `self` excludes that.
        unsafe { self.frames.memory.bytes(self.index).as_ref() }
    }
}

impl DerefMut for LockedPage<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the frame is inside the mapping, which outlives `'a`. The slot is busy until
        // `self` is dropped, so it cannot be pinned; when `self` was made no pin was left; and no
        // other guard of it exists. The bytes were filled before.
        unsafe { self.frames.memory.bytes(self.index).as_mut() }
    }
}
