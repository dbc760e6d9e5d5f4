//! Finding and claiming pages: what the page cache does, and the buffer cache with the device's.

use super::bytes::{LockedPage, NewPage, Page};
use super::index::FrameIndex;
use super::key::{PAGE_WORDS, PageKey, PageLayout};
use super::pool::{Frames, Holder};
use crate::stats::CacheStats;
use crate::sync::Relaxed;
use crate::table::histogram::Report;
use crate::table::{Found, Inserted, Layout, Pin, State, Taken};
use crate::tape::CacheKind;
use std::ops::Range;
use std::sync::Arc;

/// The page cache. See the [module](super).
#[derive(Clone, Debug)]
pub struct PageCache {
    frames: Arc<Frames>,
    holder: Holder,
}

/// What became of asking for a page.
#[derive(Debug)]
pub enum Entry<'a> {
    /// It is here.
    Uptodate(Page<'a>),
    /// It is being read.
    Busy(PageWait<'a>),
    /// It is not here: the caller is to read it.
    New(NewPage),
    /// It is not here, and every page is in use: read without caching.
    Full,
}

/// What became of asking for a page to change.
#[derive(Debug)]
pub enum Lock<'a> {
    /// It is the caller's.
    Locked(LockedPage<'a>),
    /// It is being filled or changed.
    Busy(PageWait<'a>),
    /// It is pinned, and the caller gave up waiting for that.
    Held,
    /// It is not here.
    Absent,
}

/// What became of pages read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadaheadCounts {
    /// Pages read before anyone asked for them.
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
    /// As [`Page::take_marker`], before the page is filled.
    #[must_use]
    pub fn take_marker(&self) -> bool {
        let slot = self.cache.frames.arena.slot(self.index);
        slot.take_flag_of(self.seen, State::MARKER)
    }

    /// Parks until the page is no longer being filled. `None` if that failed (or
    /// the page was evicted at once): look it up again, and try to read it.
    ///
    /// Not to be called with a [`NewPage`] in hand: two threads that fill what
    /// the other waits for would wait forever.
    #[must_use]
    pub fn wait(self) -> Option<Page<'a>> {
        let frames = &*self.cache.frames;
        let slot = frames.arena.slot(self.index);
        frames.waits.wait(slot, self.index, self.seen);
        self.cache.pinned(self.cache.index().get_again(&self.key))
    }
}

impl PageCache {
    /// The page cache on `frames`.
    #[must_use]
    pub fn new(frames: Arc<Frames>) -> Self {
        Self {
            frames,
            holder: Holder::Page,
        }
    }

    /// The pages of a device on `frames`, for the buffer cache.
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

    /// Size of a page in bytes.
    #[must_use]
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.frames.frame_bytes()
    }

    /// The page, if it is here and uptodate. Takes no lock.
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

    /// The page to change, if it is here and uptodate. Waits, without parking, until nobody has it
    /// pinned, or until `gives_up` returns true: a page that is written to the device is pinned
    /// for long. Not to be called by a thread that has the page pinned. Counts no lookup, but is
    /// a use of the page.
    #[must_use]
    pub fn lock(&self, key: PageKey, gives_up: impl Fn() -> bool) -> Lock<'_> {
        match self.index().lock(&key) {
            Some(Taken::Locked(index, before)) => {
                self.note_use(before);
                LockedPage::new(&self.frames, self.holder, index, gives_up)
                    .map_or(Lock::Held, Lock::Locked)
            }
            Some(Taken::Busy(index, seen)) => Lock::Busy(self.wait(key, index, seen)),
            None => Lock::Absent,
        }
    }

    /// The page, or the duty to read it, or the chance to wait for the thread that has that
    /// duty. Meant for after a [`PageCache::get`] that found nothing, so it counts no
    /// lookup.
    #[must_use]
    pub fn get_or_insert(&self, key: PageKey) -> Entry<'_> {
        // First without a frame in hand: nothing need be evicted to wait.
        if let Some(found) = self.index().get_again(&key) {
            return self.found(key, found);
        }
        match self.insert(key) {
            None => Entry::Full,
            Some(Inserted::New(index)) => Entry::New(self.new_page(index)),
            Some(Inserted::Existing(found)) => self.found(key, found),
        }
    }

    /// A page to fill, if it is neither here nor being read and there is room:
    /// for readahead, which waits for nothing.
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

    /// Inserts a busy page; `None` if every frame is held.
    fn insert(&self, key: PageKey) -> Option<Inserted<'_, PAGE_WORDS>> {
        let vacant = self.frames.take()?;
        let flags = State::BUSY | self.holder.flags();
        Some(self.index().get_or_insert(&key, vacant, flags))
    }

    fn new_page(&self, index: u32) -> NewPage {
        NewPage::new(&self.frames, self.holder, index)
    }

    /// Whether the page is here or being read. Counts neither as a lookup nor as a use of
    /// the page.
    #[must_use]
    pub fn contains(&self, key: PageKey) -> bool {
        self.index().contains(&key)
    }

    /// Makes a filled page uptodate, and returns it pinned. See
    /// [`NewPage::complete`] for a caller that does not use it.
    ///
    /// # Panics
    /// If `page` is from another cache.
    #[must_use]
    pub fn complete(&self, page: NewPage) -> Page<'_> {
        page.complete_pinned(&self.frames)
    }

    /// Drops the page from the cache; false if it is not here, or in use.
    #[expect(clippy::must_use_candidate, reason = "may be called for its effect")]
    pub fn remove(&self, key: PageKey) -> bool {
        let removed = self.index().take_out(&key);
        if removed.is_some_and(|state| state.has(State::READAHEAD)) {
            self.frames.pages_wasted.fetch_add(1, Relaxed);
        }
        removed.is_some()
    }

    /// Drops those pages of the file with an index in `indexes` that are not in use.
    pub fn remove_range(&self, ino: u64, indexes: Range<u64>) {
        self.each_in(ino, indexes, |key| {
            self.remove(key);
        });
    }

    /// Drops the pages of the file with an index in `indexes`, dirty ones too; those that are being
    /// filled or changed stay. Waits until nobody has one of them pinned.
    pub fn discard_range(&self, ino: u64, indexes: Range<u64>) {
        self.each_in(ino, indexes, |key| {
            if let Lock::Locked(page) = self.lock(key, || false) {
                page.discard();
            }
        });
    }

    /// Calls `visit` for all pages of the file with an index in `indexes`, and perhaps for some that
    /// are not there. Looks each index up, or at each frame, whichever are fewer.
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

    /// The page, which is here and dirty, is on the device now and may be evicted
    /// again; false if it is not so. No use of the page.
    #[expect(clippy::must_use_candidate, reason = "may be called for its effect")]
    pub fn set_clean(&self, key: PageKey) -> bool {
        self.index().take_flag(&key, State::DIRTY)
    }

    /// The frames that hold the pages.
    #[must_use]
    #[inline]
    pub fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    /// What became of pages read ahead.
    #[must_use]
    pub fn readahead_counts(&self) -> ReadaheadCounts {
        let frames = &self.frames;
        ReadaheadCounts {
            pages_ahead: frames.pages_ahead.load(Relaxed),
            pages_used: frames.pages_used.load(Relaxed),
            pages_wasted: frames.pages_wasted.load(Relaxed),
        }
    }

    /// The table's size and what lookups cost. Looks at no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let capacity = self.frames.capacity().into();
        self.index().stats(capacity, self.page_bytes() as u64)
    }

    /// The histogram of chain lengths, or of depths in trees. Looks at every bucket, or page.
    #[must_use]
    pub fn report(&self) -> Report {
        let cache = match self.holder {
            Holder::Page => CacheKind::Page,
            Holder::Buffer => CacheKind::Buffer,
        };
        self.index().report(cache)
    }
}
