//! The conversion of frames to slices, in unsafe code. The only other unsafe code of this crate is in
//! [`memory`](crate::memory).
//!
//! The conversion is sound because of the states of a frame, as drawn in [`super`]:
//! - A frame's bytes are written only through its [`NewPage`] or [`LockedPage`]. At most one of these
//!   guards exists, and only while the slot is busy. The thread that made the slot busy creates the guard.
//!   For a `NewPage`, the thread owned the vacant slot, and made it busy by a store to the state word. For a
//!   `LockedPage`, the thread made the slot busy by an exchange of the state word. A busy slot cannot be
//!   pinned or evicted, nor made busy again.
//! - Other threads read the bytes only through a [`Page`] or an [`OwnedPage`]. Both have a pin. A pinned
//!   slot cannot be evicted. It can become busy, but its [`LockedPage`] is created only after the last pin
//!   is removed.
//! - The change of the state word that ends the busy state has release ordering, and pinning and locking
//!   load the word with acquire ordering. Unpinning has release ordering. Eviction, and the wait until no
//!   pin is left, load the word with acquire ordering. So the writes and the reads of different threads
//!   are ordered.
#![allow(unsafe_code, reason = "makes slices of frames")]

use super::key::PAGE_WORDS;
use super::pool::{Frames, Holder};
use crate::sync::Relaxed;
use crate::table::{Pin, Slot, State};
use larder_block::{ReadBuffers, WriteBuffers};
use std::io::{IoSlice, IoSliceMut};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// An uptodate page, which is pinned while this guard exists.
///
/// The guard contains a pointer instead of a slice. A slice would have to be valid until the guard's drop
/// returns, but the drop removes the pin before that.
#[derive(Debug)]
pub struct Page<'a> {
    pin: Pin<'a, PAGE_WORDS>,
    bytes: NonNull<[u8]>,
}

// SAFETY: a page provides only shared slices of bytes, which are `Send`, and any thread may remove a pin.
unsafe impl Send for Page<'_> {}
// SAFETY: a page provides only shared slices of bytes, which are `Sync`.
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

impl Page<'_> {
    /// Converts the guard into one that keeps the pool alive instead of borrowing it, for a request to a
    /// device. The page stays pinned.
    ///
    /// # Panics
    /// If `frames` is not the pool of the page.
    #[must_use]
    pub fn into_owned(self, frames: &Arc<Frames>) -> OwnedPage {
        let bytes = frames.memory.bytes(self.pin.index());
        let is_same = bytes.cast::<u8>() == self.bytes.cast::<u8>();
        assert!(is_same, "the page belongs to another pool");
        OwnedPage {
            index: self.pin.into_index(),
            frames: Arc::clone(frames),
        }
    }
}

/// An uptodate page, which is pinned while this guard exists. The guard does not borrow the cache.
#[derive(Debug)]
pub struct OwnedPage {
    frames: Arc<Frames>,
    index: u32,
}

impl Drop for OwnedPage {
    fn drop(&mut self) {
        drop(Pin::adopt(self.frames.arena.slot(self.index), self.index));
    }
}

impl Deref for OwnedPage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for `Page`; `self.frames` keeps the mapping alive.
        unsafe { self.frames.memory.bytes(self.index).as_ref() }
    }
}

/// The parts of pages that make up one device write, in order.
#[derive(Clone, Debug, Default)]
pub struct PageParts(Vec<(Arc<OwnedPage>, Range<usize>)>);

impl PageParts {
    /// Appends the bytes of `page` in `range`.
    ///
    /// # Panics
    /// If `range` is not inside the page.
    pub fn push(&mut self, page: &Arc<OwnedPage>, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= page.len());
        self.0.push((Arc::clone(page), range));
    }

    /// Appends all parts of `other`.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Returns the total length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.0.iter().map(|(_, range)| range.len()).sum()
    }
}

// SAFETY: the bytes are in the mapping of the pool, which each page keeps alive, so they do not move. The
// pages are pinned, so no thread writes to them.
unsafe impl WriteBuffers for PageParts {
    fn slices(&self) -> Vec<IoSlice<'_>> {
        let parts = self.0.iter();
        parts
            .map(|(page, range)| IoSlice::new(&page[range.clone()]))
            .collect()
    }
}

impl Deref for Page<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frame is inside the mapping, which outlives `'a`. The frame is pinned as long as
        // `self` exists, and no thread writes to a pinned frame. The mapping was created zeroed, so all
        // bytes are initialised.
        unsafe { self.bytes.as_ref() }
    }
}

/// A page that the owner of this guard must fill. The guard may be sent to another thread. If the guard is
/// dropped without a call of [`NewPage::complete`], for example because the read failed, the page is
/// removed from the cache, and the threads that wait for the page are woken.
#[derive(Debug)]
#[must_use]
pub struct NewPage {
    frames: Arc<Frames>,
    holder: Holder,
    index: u32,
    complete: bool,
}

impl NewPage {
    /// Creates the guard of the frame `index`. The caller must have inserted the frame as busy, and must
    /// create only one guard.
    pub(super) fn new(frames: &Arc<Frames>, holder: Holder, index: u32) -> Self {
        Self {
            frames: Arc::clone(frames),
            holder,
            index,
            complete: false,
        }
    }

    /// Makes the page uptodate, and wakes the threads that wait for it. The caller must have filled the
    /// page.
    pub fn complete(self) {
        self.fill(0);
    }

    /// Makes the page uptodate, as [`NewPage::complete`] does, and returns it pinned. `frames` must be the
    /// pool of the page's frame.
    pub(super) fn complete_pinned(self, frames: &Arc<Frames>) -> Page<'_> {
        assert!(
            Arc::ptr_eq(&self.frames, frames),
            "the frame belongs to another pool"
        );
        let index = self.index;
        self.fill(1);
        Page::new(frames, Pin::adopt(frames.arena.slot(index), index))
    }

    /// Makes the page uptodate with `pins` pins, which belong to the caller.
    fn fill(mut self, pins: u32) {
        if self.slot().state().has(State::READAHEAD) {
            self.frames.pages_ahead.fetch_add(1, Relaxed);
        }
        self.complete = true;
        self.frames.finish_fill(self.index, pins);
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
        // SAFETY: as for `deref_mut`. A shared borrow of `self` excludes an exclusive one.
        unsafe { self.frames.memory.bytes(self.index).as_ref() }
    }
}

impl DerefMut for NewPage {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the frame is inside the mapping, which `self.frames` keeps alive. The slot is
        // busy until `self` is consumed, so it cannot be pinned, and no other guard of it exists.
        // The mapping was created zeroed, so all bytes are initialised.
        unsafe { self.frames.memory.bytes(self.index).as_mut() }
    }
}

/// Consecutive pages of equal size, and the range of their bytes that one device read fills.
#[derive(Debug)]
pub struct PagesToRead {
    pages: Vec<NewPage>,
    bytes: Range<usize>,
}

impl PagesToRead {
    /// Creates the buffers of a read that fills `bytes`, relative to the start of the first page.
    ///
    /// # Panics
    /// If `bytes` is not inside the pages.
    #[must_use]
    pub fn new(pages: Vec<NewPage>, bytes: Range<usize>) -> Self {
        let len = pages.iter().map(|page| page.len()).sum();
        assert!(bytes.start <= bytes.end && bytes.end <= len);
        Self { pages, bytes }
    }

    /// Returns the pages.
    #[must_use]
    pub fn into_pages(self) -> Vec<NewPage> {
        self.pages
    }
}

// SAFETY: the bytes are in the mapping of the pool, which each page keeps alive, so they do not move. The
// pages are busy, so only their owner, `self`, accesses the bytes. If the owner is leaked, the pages stay
// busy.
unsafe impl ReadBuffers for PagesToRead {
    fn slices_mut(&mut self) -> Vec<IoSliceMut<'_>> {
        let mut start = 0;
        let mut slices = Vec::with_capacity(self.pages.len());
        for page in &mut self.pages {
            let end = start + page.len();
            let part = self.bytes.start.max(start)..self.bytes.end.min(end);
            if part.start < part.end {
                slices.push(IoSliceMut::new(
                    &mut page[part.start - start..part.end - start],
                ));
            }
            start = end;
        }
        slices
    }
}

/// A page that was uptodate, and is busy while this guard exists. The owner of the guard may change the
/// page, because no thread has it pinned. When the guard is dropped, the page is uptodate again.
#[derive(Debug)]
pub struct LockedPage<'a> {
    frames: &'a Frames,
    holder: Holder,
    index: u32,
}

impl<'a> LockedPage<'a> {
    /// Waits until no thread has the frame `index` pinned, and creates its guard. If `is_cancelled`
    /// returns true before that, makes the frame uptodate again and returns `None`. The caller must have
    /// made the uptodate frame busy, and must create only one guard.
    pub(super) fn new(
        frames: &'a Frames,
        holder: Holder,
        index: u32,
        is_cancelled: impl Fn() -> bool,
    ) -> Option<Self> {
        if !frames.arena.slot(index).wait_unpinned(is_cancelled) {
            frames.finish_fill(index, 0);
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

    /// Removes the page from the cache, even if it is dirty.
    pub(super) fn discard(self) {
        let (frames, holder, index) = (self.frames, self.holder, self.index);
        std::mem::forget(self);
        frames.abandon(holder, index);
    }
}

impl Drop for LockedPage<'_> {
    fn drop(&mut self) {
        self.frames.finish_fill(self.index, 0);
    }
}

impl Deref for LockedPage<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for `deref_mut`. A shared borrow of `self` excludes an exclusive one.
        unsafe { self.frames.memory.bytes(self.index).as_ref() }
    }
}

impl DerefMut for LockedPage<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the frame is inside the mapping, which outlives `'a`. When `self` was created, the
        // frame was busy and had no pins. It is busy until `self` is dropped, so it cannot be pinned,
        // and no other guard of it exists. The mapping was created zeroed, so all bytes are
        // initialised.
        unsafe { self.frames.memory.bytes(self.index).as_mut() }
    }
}
