//! The page cache: file data, found by inode number and page index.
//!
//! # Model
//! `filemap_get_folio` and `filemap_add_folio` over the page hash of Linux 2.4,
//! where a page is being read or uptodate, and then perhaps dirty, which holds it in
//! place until it is [clean](PageCache::set_clean). A page here is a frame: 4 KiB, or
//! a block where that is larger.
//!
//! # The way of a write
//! An uptodate page is [locked](PageCache::lock), which waits for those who look at it
//! and lets nobody else do so, changed in place, and marked dirty. A page that is not here
//! is inserted as for a read, and filled with what it is to hold. Who writes pages to the
//! device holds them pinned: that keeps changes away.
//!
//! # The way of a read
//! ```no_run
//! # use larder_cache::page::{Entry, PageCache, PageKey};
//! # fn read(_: &mut [u8]) -> std::io::Result<()> { Ok(()) }
//! # fn first_byte(pages: &PageCache, key: PageKey) -> std::io::Result<u8> {
//! loop {
//!     if let Some(page) = pages.get(key) {
//!         return Ok(page[0]);
//!     }
//!     match pages.get_or_insert(key) {
//!         Entry::Uptodate(page) => return Ok(page[0]),
//!         // Uptodate now, or its read failed: then look again, and try oneself.
//!         Entry::Busy(wait) => drop(wait.wait()),
//!         Entry::New(mut page) => {
//!             read(&mut page)?; // on failure the page is dropped: waiters wake
//!             return Ok(pages.complete(page)[0]);
//!         }
//!         // All pages are in use: read without caching.
//!         Entry::Full => {
//!             let mut bytes = vec![0; pages.page_bytes()];
//!             read(&mut bytes)?;
//!             return Ok(bytes[0]);
//!         }
//!     }
//! }
//! # }
//! ```
//!
//! # Invariants, locking, cost
//! Those of [`crate::frame`] and [`crate::table`]: no lock on a hit.

use crate::frame::{
    Frame, FrameEntry, FrameKey, FrameLock, FrameWait, Frames, Holder, LockedFrame, NewFrame,
};
use crate::stats::CacheStats;
use crate::table::State;
use crate::table::histogram::Report;
use crate::tape::CacheKind;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

pub use crate::frame::ReadaheadCounts;

/// A page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// The file's inode number.
    pub ino: u64,
    /// Which page of the file.
    pub index: u64,
}

impl From<PageKey> for FrameKey {
    #[inline]
    fn from(key: PageKey) -> Self {
        Self {
            object: key.ino,
            index: key.index,
        }
    }
}

/// The page cache.
#[derive(Clone, Debug)]
pub struct PageCache {
    frames: Arc<Frames>,
}

/// An uptodate page, held in place while this lives.
#[derive(Debug)]
pub struct Page<'a>(Frame<'a>);

/// A page to fill. It may be sent to another thread. Dropped before
/// [`NewPage::complete`], it is taken out again, as after a failed read, and
/// those who wait for it are woken.
#[derive(Debug)]
#[must_use]
pub struct NewPage(NewFrame);

/// A page that another thread is filling or changing.
#[derive(Debug)]
#[must_use]
pub struct PageWait<'a>(FrameWait<'a>);

/// An uptodate page to change: nobody else looks at it while this lives.
#[derive(Debug)]
pub struct LockedPage<'a>(LockedFrame<'a>);

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

impl PageCache {
    /// The page cache on `frames`.
    #[must_use]
    pub fn new(frames: Arc<Frames>) -> Self {
        Self { frames }
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
        self.frames.get(Holder::Page, key.into()).map(Page)
    }

    /// The page, or the duty to read it, or the chance to wait for who has that.
    /// Meant for after a [`PageCache::get`] that found nothing, so it counts no
    /// lookup.
    #[must_use]
    pub fn get_or_insert(&self, key: PageKey) -> Entry<'_> {
        match self.frames.get_or_insert(Holder::Page, key.into()) {
            FrameEntry::Uptodate(frame) => Entry::Uptodate(Page(frame)),
            FrameEntry::Busy(wait) => Entry::Busy(PageWait(wait)),
            FrameEntry::New(frame) => Entry::New(NewPage(frame)),
            FrameEntry::Full => Entry::Full,
        }
    }

    /// A page to fill, if it is neither here nor being read and there is room:
    /// for readahead, which waits for nothing.
    #[must_use]
    pub fn insert_absent(&self, key: PageKey) -> Option<NewPage> {
        self.frames
            .insert_absent(Holder::Page, key.into())
            .map(NewPage)
    }

    /// The page to change, if it is here and uptodate. Waits, without parking, until nobody has it
    /// pinned, or until `gives_up` returns true: a page that is written to the device is pinned
    /// for long. Not to be called by a thread that has the page pinned. Counts no lookup, but is
    /// a use of the page.
    #[must_use]
    pub fn lock(&self, key: PageKey, gives_up: impl Fn() -> bool) -> Lock<'_> {
        match self.frames.lock(Holder::Page, key.into(), gives_up) {
            FrameLock::Locked(frame) => Lock::Locked(LockedPage(frame)),
            FrameLock::Busy(wait) => Lock::Busy(PageWait(wait)),
            FrameLock::Held => Lock::Held,
            FrameLock::Absent => Lock::Absent,
        }
    }

    /// Whether the page is here or being read. Counts no lookup and is no use of
    /// the page.
    #[must_use]
    pub fn contains(&self, key: PageKey) -> bool {
        self.frames.index(Holder::Page).contains(&key.into())
    }

    /// The page is filled: whoever wants it may have it, the caller first. See
    /// [`NewPage::complete`] for when the caller does not.
    ///
    /// # Panics
    /// If `page` is from another cache.
    #[must_use]
    pub fn complete(&self, page: NewPage) -> Page<'_> {
        Page(page.0.complete_pinned(&self.frames))
    }

    /// Drops the page from the cache; false if it is not here, or in use.
    #[expect(clippy::must_use_candidate, reason = "may be called for its effect")]
    pub fn remove(&self, key: PageKey) -> bool {
        self.frames.remove(Holder::Page, key.into())
    }

    /// Drops those pages of the file with an index in `indexes` that are not in use.
    pub fn remove_range(&self, ino: u64, indexes: Range<u64>) {
        self.frames.remove_range(Holder::Page, ino, indexes);
    }

    /// Drops the pages of the file with an index in `indexes`, dirty ones too; those that are being
    /// filled or changed stay. Waits for those who look at one.
    pub fn discard_range(&self, ino: u64, indexes: Range<u64>) {
        self.frames.discard_range(Holder::Page, ino, indexes);
    }

    /// The page, which is here and dirty, is on the device now and may be evicted
    /// again; false if it is not so. No use of the page.
    #[expect(clippy::must_use_candidate, reason = "may be called for its effect")]
    pub fn set_clean(&self, key: PageKey) -> bool {
        self.frames
            .index(Holder::Page)
            .take_flag(&key.into(), State::DIRTY)
    }

    /// The frames that the pages lie in.
    #[must_use]
    pub fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    /// What became of pages read ahead.
    #[must_use]
    pub fn readahead_counts(&self) -> ReadaheadCounts {
        self.frames.readahead_counts()
    }

    /// The table's size and what lookups cost. Looks at no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.frames.stats(Holder::Page)
    }

    /// The histogram of chain lengths, or of depths in trees. Looks at every bucket, or page.
    #[must_use]
    pub fn report(&self) -> Report {
        self.frames.index(Holder::Page).report(CacheKind::Page)
    }
}

impl Page<'_> {
    /// Whether the page was used before this time. Bringing a page in, and the
    /// first use of one that was read ahead, do not count.
    #[must_use]
    pub fn is_referenced(&self) -> bool {
        self.0.slot().state().has(State::REFERENCED)
    }

    /// Whether the device does not have the page as it is.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.0.slot().state().has(State::DIRTY)
    }

    /// Holds the page in the cache until [`PageCache::set_clean`], pinned or not.
    pub fn set_dirty(&self) {
        self.0.slot().set_flags(State::DIRTY);
    }

    /// Whether this page triggers the next readahead. Says so once: whoever asks
    /// first has to do it.
    #[must_use]
    #[inline]
    pub fn take_marker(&self) -> bool {
        self.0.slot().take_flag(State::MARKER)
    }
}

impl Deref for Page<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl NewPage {
    /// Lets this page trigger the next readahead when it is reached.
    pub fn set_marker(&mut self) {
        self.0.set_marker();
    }

    /// Says that nobody asked for this page yet: its use, or its eviction before
    /// that, is counted. Its first use does not make it referenced, so that a
    /// file read once leaves earlier than pages read twice.
    pub fn set_readahead(&mut self) {
        self.0.set_readahead();
    }

    /// Says that this page is read for who will look it up next. As with a page
    /// read ahead, that first use does not make it referenced.
    pub fn set_wanted(&mut self) {
        self.0.set_wanted();
    }

    /// Holds the page in the cache until [`PageCache::set_clean`].
    pub fn set_dirty(&mut self) {
        self.0.set_dirty();
    }

    /// The page is filled: whoever wants it may have it.
    pub fn complete(self) {
        self.0.complete();
    }
}

impl Deref for NewPage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for NewPage {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl LockedPage<'_> {
    /// Holds the page in the cache until [`PageCache::set_clean`].
    pub fn set_dirty(&mut self) {
        self.0.slot().set_flags(State::DIRTY);
    }
}

impl Deref for LockedPage<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for LockedPage<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl<'a> PageWait<'a> {
    /// As [`Page::take_marker`], before the page is filled.
    #[must_use]
    pub fn take_marker(&self) -> bool {
        self.0.take_flag(State::MARKER)
    }

    /// Parks until the page is no longer being filled. `None` if that failed (or
    /// the page was evicted at once): look it up again, and try to read it.
    ///
    /// Not to be called with a [`NewPage`] in hand: two threads that fill what
    /// the other waits for would wait forever.
    #[must_use]
    pub fn wait(self) -> Option<Page<'a>> {
        self.0.wait().map(Page)
    }
}
