//! From frames to slices: the second place with unsafe code, and the last.
//!
//! What makes it sound is the life of a frame as [`super`] draws it:
//! - a frame's bytes are written only through its [`NewPage`] or [`LockedPage`], of
//!   which one exists while the slot is busy: for the thread whose exchange of the state
//!   word made it so; a busy slot cannot be pinned or evicted, nor made busy again;
//! - they are read only through [`Page`], which holds a pin; a pinned slot
//!   cannot be evicted. It can become busy, but its [`LockedPage`] is not made before the
//!   last pin is gone;
//! - filling and changing end with a release of the state word that pinning and locking acquire,
//!   and unpinning with a release that eviction and the wait for the last pin acquire, so
//!   writes and reads of different threads are ordered.
#![allow(unsafe_code, reason = "makes slices of frames")]

use super::key::PAGE_WORDS;
use super::pool::{Frames, Holder};
use crate::sync::Relaxed;
use crate::table::{Pin, Slot, State};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// An uptodate page, held in place while this lives.
///
/// Holds a pointer, not a slice: a slice would have to stay valid until the
/// drop has returned, while the pin already ends inside it.
#[derive(Debug)]
pub struct Page<'a> {
    pin: Pin<'a, PAGE_WORDS>,
    bytes: NonNull<[u8]>,
}

// SAFETY: as for the `&[u8]` that `bytes` stands for; the pin may be sent.
unsafe impl Send for Page<'_> {}
// SAFETY: as for `Send`: sharing a frame lends out shared slices only.
unsafe impl Sync for Page<'_> {}

impl<'a> Page<'a> {
    #[inline]
    pub(super) fn new(frames: &'a Frames, pin: Pin<'a, PAGE_WORDS>) -> Self {
        let bytes = frames.memory.bytes(pin.index());
        Self { pin, bytes }
    }

    /// The frame's slot.
    #[inline]
    pub(super) fn slot(&self) -> &'a Slot<PAGE_WORDS> {
        self.pin.slot()
    }
}

impl Deref for Page<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frame lies inside the mapping, which outlives `'a`. It was
        // filled before it could be pinned, and nobody writes to it while it is
        // pinned, which it is as long as `self` lives. Zeroed or filled, its bytes
        // are initialised.
        unsafe { self.bytes.as_ref() }
    }
}

/// A page to fill. It may be sent to another thread. Dropped before
/// [`NewPage::complete`], it is taken out again, as after a failed read, and
/// the threads that wait for it are woken.
#[derive(Debug)]
#[must_use]
pub struct NewPage {
    frames: Arc<Frames>,
    holder: Holder,
    index: u32,
    complete: bool,
}

impl NewPage {
    /// For the thread that inserted `index` as busy, once.
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

    /// [`NewPage::complete`], and a pin for the caller. `frames` must be the
    /// pool that the frame is from.
    pub(super) fn complete_pinned(self, frames: &Arc<Frames>) -> Page<'_> {
        assert!(Arc::ptr_eq(&self.frames, frames), "a frame of another pool");
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
        // SAFETY: the frame lies inside the mapping, which `self.frames` keeps. The
        // slot is busy until `self` is consumed, so nobody can pin it, and `self` is
        // the only one of its kind. Zeroed or filled, the bytes are initialised.
        unsafe { self.frames.memory.bytes(self.index).as_mut() }
    }
}

/// An uptodate page to change: nobody else has it pinned while this lives.
#[derive(Debug)]
pub struct LockedPage<'a> {
    frames: &'a Frames,
    holder: Holder,
    index: u32,
}

impl<'a> LockedPage<'a> {
    /// For the thread that made the uptodate frame `index` busy, once. Waits for those who have it
    /// pinned; `None`, and the frame is as before, if `gives_up` says so meanwhile.
    pub(super) fn new(
        frames: &'a Frames,
        holder: Holder,
        index: u32,
        gives_up: impl Fn() -> bool,
    ) -> Option<Self> {
        if !frames.arena.slot(index).wait_unpinned(gives_up) {
            frames.fill(index, 0);
            return None;
        }
        Some(Self {
            frames,
            holder,
            index,
        })
    }

    /// The frame's slot.
    #[inline]
    pub(super) fn slot(&self) -> &'a Slot<PAGE_WORDS> {
        self.frames.arena.slot(self.index)
    }

    /// Drops the frame from the cache, dirty or not.
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
        // SAFETY: the frame lies inside the mapping, which outlives `'a`. The slot is busy until
        // `self` is dropped, so nobody can pin it; when `self` was made no pin was left; and `self`
        // is the only one of its kind. The bytes were filled before.
        unsafe { self.frames.memory.bytes(self.index).as_mut() }
    }
}
