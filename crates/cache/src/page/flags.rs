//! The flags of a page.

use super::bytes::{LockedPage, NewPage, Page};
use crate::table::State;

impl Page<'_> {
    /// Returns true if the page was used before this time. The read of a page, and the first use of
    /// a page that was read ahead, do not count.
    #[must_use]
    pub fn is_referenced(&self) -> bool {
        self.slot().state().has(State::REFERENCED)
    }

    /// Returns true if the device does not have the page's present contents.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.slot().state().has(State::DIRTY)
    }

    /// Makes the page dirty. It stays in the cache until
    /// [`PageCache::set_clean`](super::PageCache::set_clean), pinned or not.
    pub fn set_dirty(&self) {
        self.slot().set_flags(State::DIRTY);
    }

    /// Clears the marker. Returns true if the page had it. The caller that gets true must start the
    /// next readahead.
    #[must_use]
    #[inline]
    pub fn take_marker(&self) -> bool {
        self.slot().take_flag(State::MARKER)
    }

    /// Returns true if any of `bits` was set with [`Page::set_aux_bits`].
    #[inline]
    pub(crate) fn has_aux_bits(&self, bits: u32) -> bool {
        self.slot().aux() & bits != 0
    }

    /// Sets `bits`, which belong to the contents and are kept until the page is evicted.
    pub(crate) fn set_aux_bits(&self, bits: u32) {
        self.slot().set_aux_bits(bits);
    }
}

impl NewPage {
    /// Sets the marker, so that a read of this page triggers the next readahead.
    pub fn set_marker(&mut self) {
        self.slot().set_flags(State::MARKER);
    }

    /// Marks the page as read ahead, so that its use, or its eviction before that, is counted. Its
    /// first use does not make it referenced, so a file that is read once is evicted earlier than
    /// pages that are read twice.
    pub fn set_readahead(&mut self) {
        self.slot().set_flags(State::READAHEAD);
    }

    /// Marks the page as read for the next lookup. As with a page read ahead, that first use does
    /// not make it referenced.
    pub fn set_wanted(&mut self) {
        self.slot().set_flags(State::WANTED);
    }

    /// Makes the page dirty. It stays in the cache until
    /// [`PageCache::set_clean`](super::PageCache::set_clean).
    pub fn set_dirty(&mut self) {
        self.slot().set_flags(State::DIRTY);
    }

    /// Does what [`Page::set_aux_bits`] does.
    pub(crate) fn set_aux_bits(&mut self, bits: u32) {
        self.slot().set_aux_bits(bits);
    }
}

impl LockedPage<'_> {
    /// Makes the page dirty. It stays in the cache until
    /// [`PageCache::set_clean`](super::PageCache::set_clean).
    pub fn set_dirty(&mut self) {
        self.slot().set_flags(State::DIRTY);
    }
}
