//! Lookup and insertion of pages. The page cache uses this module for pages of files, and the buffer cache
//! uses it for pages of the device.

use super::bytes::{LockedPage, NewPage, Page};
use super::index::FrameIndex;
use super::key::{PAGE_WORDS, PageKey, PageLayout};
use super::pool::{Frames, Holder};
use crate::stats::CacheStats;
use crate::sync::Relaxed;
use crate::table::histogram::Report;
use crate::table::{Found, Inserted, Layout, LockAttempt, Pin, State};
use crate::tape::CacheKind;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// A cache of pages, described in the [module](super).
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
    /// Another thread fills or changes the page. The caller can wait until that thread is done.
    Busy(PageWait<'a>),
    /// The page was not cached and has been inserted. The caller must read it.
    New(NewPage),
    /// The page cannot be cached or pinned: no frame is available, or the page has the largest possible
    /// number of pins. The caller must read the page without caching it.
    Full,
}

/// The result of an attempt to lock a page for a change.
#[derive(Debug)]
pub enum Lock<'a> {
    /// The caller has locked the page.
    Locked(LockedPage<'a>),
    /// Another thread fills or changes the page.
    Busy(PageWait<'a>),
    /// The page was not locked: it was still pinned when the function `is_cancelled`, which the caller passed
    /// to [`PageCache::lock`], returned true.
    Pinned,
    /// The page is not cached.
    Absent,
}

/// Counts of pages read ahead: those that were [marked](NewPage::set_readahead) as such before they were
/// filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadaheadCounts {
    /// Pages that were read ahead. A page is counted when it is filled.
    pub pages_ahead: u64,
    /// Pages that were read ahead and used later. A page is counted when it is first pinned or locked.
    pub pages_used: u64,
    /// Pages that were read ahead, and evicted, [removed](PageCache::remove) or
    /// [discarded](PageCache::discard_range) before they were used.
    pub pages_wasted: u64,
}

/// A page that another thread fills or changes, for which the caller can wait.
#[derive(Debug)]
#[must_use]
pub struct PageWait<'a> {
    cache: &'a PageCache,
    key: PageKey,
    index: u32,
    seen: State,
}

/// The error of [`PageWait::wait`] if the page is still being filled or changed when the wait must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillBusy;

impl<'a> PageWait<'a> {
    /// Clears the readahead marker of the page, as [`Page::take_marker`] does for an uptodate page. Does not
    /// wait. Returns true if the page had the marker; the caller must then start the next readahead.
    #[must_use]
    pub fn take_marker(&self) -> bool {
        let slot = self.cache.frames.arena.slot(self.index);
        slot.take_flag_of(self.seen, State::MARKER)
    }

    /// Parks the calling thread while the page is busy, and then returns the page. Returns `None` if the
    /// page cannot be pinned, normally because its read failed or because it was evicted meanwhile. In
    /// this case, the caller must look the page up again, and may have to read it. If `end` is `None`, the
    /// wait has no time limit.
    ///
    /// The caller must not have a [`NewPage`]: two threads that each read a page and wait for the other
    /// thread's page would deadlock.
    ///
    /// # Errors
    /// [`StillBusy`] if the page is still busy at `end`.
    pub fn wait(self, end: Option<Instant>) -> Result<Option<Page<'a>>, StillBusy> {
        let frames = &*self.cache.frames;
        let slot = frames.arena.slot(self.index);
        if !frames.waits.wait(slot, self.index, self.seen, end) {
            return Err(StillBusy);
        }
        Ok(self.cache.pinned(self.cache.index().get_again(&self.key)))
    }
}

impl PageCache {
    /// Creates the page cache, which stores pages of files in `frames`.
    #[must_use]
    pub fn new(frames: Arc<Frames>) -> Self {
        Self {
            frames,
            holder: Holder::Page,
        }
    }

    /// Creates a cache of pages of the device in `frames`, for the buffer cache.
    pub(crate) fn of_buffers(frames: Arc<Frames>) -> Self {
        Self {
            frames,
            holder: Holder::Buffer,
        }
    }

    /// Returns the search structure of the cache: a hash table, or trees of pages.
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

    /// Pins and returns the page, if it is cached and uptodate. Counts a lookup. Takes no lock, unless the
    /// pages are in trees.
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

    /// Counts the first use of a page that was read ahead. `before` is the state of the page before the use.
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

    /// Locks the page for a change, if it is cached and uptodate. Spins until no thread has the page pinned.
    /// This may take long, for example if the page is being written to the device. If `is_cancelled` returns
    /// true during the wait, gives up and returns [`Lock::Pinned`]. The caller must not have the page pinned.
    /// The call counts as a use of the page, but not as a lookup.
    #[must_use]
    pub fn lock(&self, key: PageKey, is_cancelled: impl Fn() -> bool) -> Lock<'_> {
        self.lock_noting(key, is_cancelled, |before| self.note_use(before))
    }

    /// Locks the page as [`PageCache::lock`] does. Calls `note` with the state of the page before the lock,
    /// instead of counting a use.
    fn lock_noting(
        &self,
        key: PageKey,
        is_cancelled: impl Fn() -> bool,
        note: impl FnOnce(State),
    ) -> Lock<'_> {
        match self.index().lock(&key) {
            Some(LockAttempt::Locked(index, before)) => {
                note(before);
                LockedPage::new(&self.frames, self.holder, index, is_cancelled)
                    .map_or(Lock::Pinned, Lock::Locked)
            }
            Some(LockAttempt::Busy(index, seen)) => Lock::Busy(self.wait(key, index, seen)),
            None => Lock::Absent,
        }
    }

    /// Returns the page, and inserts it if it is not cached. The [result](Entry) states whether the page is
    /// uptodate, is busy because another thread fills or changes it, or must be read by the caller. This
    /// function is for use after a [`PageCache::get`] that found nothing. Therefore it does not count a
    /// lookup.
    #[must_use]
    pub fn get_or_insert(&self, key: PageKey) -> Entry<'_> {
        // The first attempt allocates no frame, since an allocation may evict another page.
        if let Some(found) = self.index().get_again(&key) {
            return self.found(key, found);
        }
        match self.insert(key) {
            None => Entry::Full,
            Some(Inserted::New(index)) => Entry::New(self.new_page(index)),
            Some(Inserted::Existing(found)) => self.found(key, found),
        }
    }

    /// Inserts the page, and returns it for the caller to fill. Returns `None` if the page is cached or
    /// being read, or if no frame is available. Does not wait for the page, so readahead can call it.
    #[must_use]
    pub fn insert_absent(&self, key: PageKey) -> Option<NewPage> {
        if self.contains(key) {
            return None;
        }
        match self.insert(key)? {
            Inserted::New(index) => Some(self.new_page(index)),
            Inserted::Existing(found) => {
                // Another thread inserted the page meanwhile. The pin must not count as the first use
                // of the page.
                if let Found::Pinned(pin, before) = found {
                    for flag in [State::READAHEAD, State::WANTED] {
                        if before.has(flag) {
                            pin.slot().set_flags(flag);
                        }
                    }
                }
                None
            }
        }
    }

    /// Inserts the page as busy, unless it is in the cache. Returns `None` if no frame can be allocated.
    fn insert(&self, key: PageKey) -> Option<Inserted<'_, PAGE_WORDS>> {
        let vacant = self.frames.allocate()?;
        let flags = State::BUSY | self.holder.flags();
        Some(self.index().get_or_insert(&key, vacant, flags))
    }

    fn new_page(&self, index: u32) -> NewPage {
        NewPage::new(&self.frames, self.holder, index)
    }

    /// Returns true if the page is cached or being read. This counts neither as a lookup nor as a use of
    /// the page.
    #[must_use]
    pub fn contains(&self, key: PageKey) -> bool {
        self.index().contains(&key)
    }

    /// Returns true if the page is cached, and is neither being read nor being changed. This counts
    /// neither as a lookup nor as a use of the page.
    #[must_use]
    pub fn is_uptodate(&self, key: PageKey) -> bool {
        self.index().is_uptodate(&key)
    }

    /// Makes the filled `page` uptodate, and returns it pinned. A caller that does not use the page calls
    /// [`NewPage::complete`] instead.
    ///
    /// # Panics
    /// If `page` belongs to another pool of frames.
    #[must_use]
    pub fn complete(&self, page: NewPage) -> Page<'_> {
        page.complete_pinned(&self.frames)
    }

    /// Removes the page from the cache. Returns false if it is not cached, or is pinned, busy or dirty.
    #[expect(clippy::must_use_candidate, reason = "may be called for its effect")]
    pub fn remove(&self, key: PageKey) -> bool {
        let removed = self.index().remove_entry(&key);
        if let Some(state) = removed {
            self.frames.note_removal(state);
        }
        removed.is_some()
    }

    /// Removes all pages in the range `indexes` of the file `ino`, except those that are pinned, busy or
    /// dirty.
    pub fn remove_range(&self, ino: u64, indexes: Range<u64>) {
        self.each_in(ino, indexes, |key| {
            self.remove(key);
        });
    }

    /// Removes all pages in the range `indexes` of the file `ino`, including dirty pages, but not those
    /// that another thread is filling or changing. Before it removes a page, waits until no thread has the
    /// page pinned.
    pub fn discard_range(&self, ino: u64, indexes: Range<u64>) {
        self.each_in(ino, indexes, |key| {
            let lock = self.lock_noting(key, || false, |before| self.frames.note_removal(before));
            if let Lock::Locked(page) = lock {
                page.discard();
            }
        });
    }

    /// Calls `visit` for all cached pages in the range `indexes` of the file `ino`, and possibly for some
    /// pages that are not cached. Iterates over the indexes or over the frames, whichever are fewer. The
    /// order is descending, so that the frames of removed pages are reused in ascending order.
    fn each_in(&self, ino: u64, indexes: Range<u64>, visit: impl Fn(PageKey)) {
        let frames = self.frames.arena.touched();
        if indexes.end.saturating_sub(indexes.start) <= u64::from(frames) {
            for index in indexes.rev() {
                visit(PageKey { ino, index });
            }
            return;
        }
        for frame in (0..frames).rev() {
            let key = PageLayout::hash_input_in(self.frames.arena.slot(frame));
            if key.ino == ino && indexes.contains(&key.index) {
                visit(key);
            }
        }
    }

    /// Marks a dirty page as clean, so that it may be evicted again. The caller must have written it to
    /// the device. Returns false if the page is not cached or not dirty. This does not count as a use of
    /// the page.
    #[expect(clippy::must_use_candidate, reason = "may be called for its effect")]
    pub fn set_clean(&self, key: PageKey) -> bool {
        self.index().take_flag(&key, State::DIRTY)
    }

    /// Returns the pool of frames in which the pages are stored.
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

    /// Returns the size of the index, and the counts of lookups. Does not examine buckets or pages.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let capacity = self.frames.capacity().into();
        self.index().stats(capacity, self.page_bytes() as u64)
    }

    /// Returns the counts of lookups, and the histogram of chain lengths. If the index of the cache is not
    /// the hash table but trees of pages (`index.rs`), returns the depths of the pages instead of the
    /// histogram. Examines every bucket, or every page.
    #[must_use]
    pub fn report(&self) -> Report {
        let cache = match self.holder {
            Holder::Page => CacheKind::Page,
            Holder::Buffer => CacheKind::Buffer,
        };
        self.index().report(cache)
    }
}
