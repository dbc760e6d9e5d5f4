//! Lookup and insertion of pages, for the page cache, and for the buffer cache with the device's
//! pages.

use super::bytes::{LockedPage, NewPage, Page};
use super::index::FrameIndex;
use super::key::{PAGE_WORDS, PageKey, PageLayout};
use super::pool::{Frames, Holder};
use crate::stats::CacheStats;
use crate::sync::Relaxed;
use crate::table::histogram::Report;
use crate::table::{Found, Inserted, Layout, Pin, State, LockAttempt};
use crate::tape::CacheKind;
use std::ops::Range;
use std::sync::Arc;

/// The page cache; see the [module](super).
#[derive(Clone, Debug)]
pub struct PageCache {
    frames: Arc<Frames>,
    holder: Holder,
}

/// The result of a request for a page.
#[derive(Debug)]
pub enum Entry<'a> {
    /// The page is cached.
    Uptodate(Page<'a>),
    /// The page is being read.
    Busy(PageWait<'a>),
    /// The page is not cached, and the caller must read it.
    New(NewPage),
    /// The page is not cached, and all frames are in use: read without caching.
    Full,
}

/// The result of an attempt to lock a page for a change.
#[derive(Debug)]
pub enum Lock<'a> {
    /// The caller has locked the page.
    Locked(LockedPage<'a>),
    /// The page is being filled or changed.
    Busy(PageWait<'a>),
    /// The page is pinned, and the caller gave up waiting.
    Held,
    /// The page is not cached.
    Absent,
}

/// Counts of pages read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadaheadCounts {
    /// Pages read before they were requested.
    pub pages_ahead: u64,
    /// Of these, pages that were used.
    pub pages_used: u64,
    /// Of these, pages that were evicted before use.
    pub pages_wasted: u64,
}

/// A page that another thread is filling or changing.
#[derive(Debug)]
#[must_use]
pub struct PageWait<'a> {
    cache: &'a PageCache,
    key: PageKey,
    index: u32,
    seen: State,
}

impl<'a> PageWait<'a> {
    /// Does what [`Page::take_marker`] does, before the page is filled.
    #[must_use]
    pub fn take_marker(&self) -> bool {
        let slot = self.cache.frames.arena.slot(self.index);
        slot.take_flag_of(self.seen, State::MARKER)
    }

    /// Parks until the page is no longer being filled. Returns `None` if that failed, or if the page
    /// was evicted at once. The caller then looks it up again, and tries to read it.
    ///
    /// The caller must not hold a [`NewPage`]: two threads could each fill a page for which the
    /// other waits, and would wait forever.
    #[must_use]
    pub fn wait(self) -> Option<Page<'a>> {
        let frames = &*self.cache.frames;
        let slot = frames.arena.slot(self.index);
        frames.waits.wait(slot, self.index, self.seen);
        self.cache.pinned(self.cache.index().get_again(&self.key))
    }
}

impl PageCache {
    /// Creates the page cache on `frames`.
    #[must_use]
    pub fn new(frames: Arc<Frames>) -> Self {
        Self {
            frames,
            holder: Holder::Page,
        }
    }

    /// Creates a cache of the pages of a device on `frames`, for the buffer cache.
    pub(crate) fn of_buffers(frames: Arc<Frames>) -> Self {
        Self {
            frames,
            holder: Holder::Buffer,
        }
    }

    #[inline]
    fn index(&self) -> &FrameIndex {
        self.frames.index(self.holder)
    }

    /// Returns the size of a page in bytes.
    #[must_use]
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.frames.frame_bytes()
    }

    /// Returns the page, if it is cached and uptodate. Takes no lock.
    #[must_use]
    #[inline]
    pub fn get(&self, key: PageKey) -> Option<Page<'_>> {
        self.pinned(self.index().get(&key))
    }

    #[inline]
    fn pinned<'a>(&'a self, found: Option<Found<'a, PAGE_WORDS>>) -> Option<Page<'a>> {
        match found {
            Some(Found::Pinned(pin, before)) => Some(self.used(pin, before)),
            _ => None,
        }
    }

    #[inline]
    fn used<'a>(&'a self, pin: Pin<'a, PAGE_WORDS>, before: State) -> Page<'a> {
        self.note_use(before);
        Page::new(&self.frames, pin)
    }

    /// Counts the first use of a page that was read ahead.
    #[inline]
    fn note_use(&self, before: State) {
        if before.has(State::READAHEAD) {
            self.frames.pages_used.fetch_add(1, Relaxed);
        }
    }

    fn wait(&self, key: PageKey, index: u32, seen: State) -> PageWait<'_> {
        PageWait {
            cache: self,
            key,
            index,
            seen,
        }
    }

    fn found<'a>(&'a self, key: PageKey, found: Found<'a, PAGE_WORDS>) -> Entry<'a> {
        match found {
            Found::Pinned(pin, before) => Entry::Uptodate(self.used(pin, before)),
            Found::Busy(index, seen) => Entry::Busy(self.wait(key, index, seen)),
            Found::Saturated => Entry::Full,
        }
    }

    /// Locks the page for a change, if it is cached and uptodate. Waits, without parking, until no
    /// thread has it pinned, or until `is_cancelled` returns true: a page that is being written to the
    /// device is pinned for a long time. The caller must not have the page pinned. Counts no lookup,
    /// but is a use of the page.
    #[must_use]
    pub fn lock(&self, key: PageKey, is_cancelled: impl Fn() -> bool) -> Lock<'_> {
        match self.index().lock(&key) {
            Some(LockAttempt::Locked(index, before)) => {
                self.note_use(before);
                LockedPage::new(&self.frames, self.holder, index, is_cancelled)
                    .map_or(Lock::Held, Lock::Locked)
            }
            Some(LockAttempt::Busy(index, seen)) => Lock::Busy(self.wait(key, index, seen)),
            None => Lock::Absent,
        }
    }

    /// Returns the page, or a page that the caller must read, or the possibility to wait for the
    /// thread that reads it. This is for use after a [`PageCache::get`] that found nothing, so it
    /// counts no lookup.
    #[must_use]
    pub fn get_or_insert(&self, key: PageKey) -> Entry<'_> {
        // The first attempt takes no frame, so that no page is evicted only to wait.
        if let Some(found) = self.index().get_again(&key) {
            return self.found(key, found);
        }
        match self.insert(key) {
            None => Entry::Full,
            Some(Inserted::New(index)) => Entry::New(self.new_page(index)),
            Some(Inserted::Existing(found)) => self.found(key, found),
        }
    }

    /// Returns a page to fill, if it is neither cached nor being read and there is room. This is for
    /// readahead, and does not wait.
    #[must_use]
    pub fn insert_absent(&self, key: PageKey) -> Option<NewPage> {
        if self.contains(key) {
            return None;
        }
        match self.insert(key)? {
            Inserted::New(index) => Some(self.new_page(index)),
            Inserted::Existing(_) => None,
        }
    }

    /// Inserts a busy page. Returns `None` if every frame is held.
    fn insert(&self, key: PageKey) -> Option<Inserted<'_, PAGE_WORDS>> {
        let vacant = self.frames.allocate()?;
        let flags = State::BUSY | self.holder.flags();
        Some(self.index().get_or_insert(&key, vacant, flags))
    }

    fn new_page(&self, index: u32) -> NewPage {
        NewPage::new(&self.frames, self.holder, index)
    }

    /// Returns true if the page is cached or being read. Counts neither as a lookup nor as a use of
    /// the page.
    #[must_use]
    pub fn contains(&self, key: PageKey) -> bool {
        self.index().contains(&key)
    }

    /// Makes a filled page uptodate, and returns it pinned. [`NewPage::complete`] is for a caller
    /// that does not use it.
    ///
    /// # Panics
    /// If `page` is from another cache.
    #[must_use]
    pub fn complete(&self, page: NewPage) -> Page<'_> {
        page.complete_pinned(&self.frames)
    }

    /// Removes the page from the cache. Returns false if it is not cached, or in use.
    #[expect(clippy::must_use_candidate, reason = "may be called for its effect")]
    pub fn remove(&self, key: PageKey) -> bool {
        let removed = self.index().remove_entry(&key);
        if removed.is_some_and(|state| state.has(State::READAHEAD)) {
            self.frames.pages_wasted.fetch_add(1, Relaxed);
        }
        removed.is_some()
    }

    /// Removes the pages of the file with an index in `indexes`, except those in use.
    pub fn remove_range(&self, ino: u64, indexes: Range<u64>) {
        self.each_in(ino, indexes, |key| {
            self.remove(key);
        });
    }

    /// Removes the pages of the file with an index in `indexes`, even dirty ones, except those that
    /// are being filled or changed. Waits until no thread has one of them pinned.
    pub fn discard_range(&self, ino: u64, indexes: Range<u64>) {
        self.each_in(ino, indexes, |key| {
            if let Lock::Locked(page) = self.lock(key, || false) {
                page.discard();
            }
        });
    }

    /// Calls `visit` for all cached pages of the file with an index in `indexes`, and possibly for
    /// some that are not cached. Examines each index, or each frame, whichever are fewer.
    fn each_in(&self, ino: u64, indexes: Range<u64>, visit: impl Fn(PageKey)) {
        let frames = self.frames.arena.touched();
        if indexes.end.saturating_sub(indexes.start) <= u64::from(frames) {
            for index in indexes {
                visit(PageKey { ino, index });
            }
            return;
        }
        for frame in 0..frames {
            let key = PageLayout::hashed_in(self.frames.arena.slot(frame));
            if key.ino == ino && indexes.contains(&key.index) {
                visit(key);
            }
        }
    }

    /// Marks a dirty page as written to the device, so that it may be evicted again. Returns false
    /// if it is not cached or not dirty. This is not a use of the page.
    #[expect(clippy::must_use_candidate, reason = "may be called for its effect")]
    pub fn set_clean(&self, key: PageKey) -> bool {
        self.index().take_flag(&key, State::DIRTY)
    }

    /// Returns the frames of the pages.
    #[must_use]
    #[inline]
    pub fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    /// Returns the counts of pages read ahead.
    #[must_use]
    pub fn readahead_counts(&self) -> ReadaheadCounts {
        let frames = &self.frames;
        ReadaheadCounts {
            pages_ahead: frames.pages_ahead.load(Relaxed),
            pages_used: frames.pages_used.load(Relaxed),
            pages_wasted: frames.pages_wasted.load(Relaxed),
        }
    }

    /// Returns the table's size and the cost of lookups. Examines no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let capacity = self.frames.capacity().into();
        self.index().stats(capacity, self.page_bytes() as u64)
    }

    /// Returns the histogram of chain lengths, or of depths in trees. Examines every bucket, or
    /// page.
    #[must_use]
    pub fn report(&self) -> Report {
        let cache = match self.holder {
            Holder::Page => CacheKind::Page,
            Holder::Buffer => CacheKind::Buffer,
        };
        self.index().report(cache)
    }
}
