//! What a page is marked with, beside its contents.

use super::bytes::{LockedPage, NewPage, Page};
use crate::table::State;

impl Page<'_> {
    /// Whether the page was used before this time. Bringing a page in, and the
    /// first use of one that was read ahead, do not count.
    #[must_use]
    pub fn is_referenced(&self) -> bool {
        self.slot().state().has(State::REFERENCED)
    }

    /// Whether the device does not have the page as it is.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.slot().state().has(State::DIRTY)
    }

    /// Holds the page in the cache until [`PageCache::set_clean`](super::PageCache::set_clean),
    /// pinned or not.
    pub fn set_dirty(&self) {
        self.slot().set_flags(State::DIRTY);
    }

    /// Whether this page triggers the next readahead. Returns true once: the first caller
    /// has to do it.
    #[must_use]
    #[inline]
    pub fn take_marker(&self) -> bool {
        self.slot().take_flag(State::MARKER)
    }

    /// Whether one of `bits` is noted of the contents.
    #[inline]
    pub(crate) fn has_aux_bits(&self, bits: u32) -> bool {
        self.slot().aux() & bits != 0
    }

    /// Notes `bits` of the contents, until the page goes.
    pub(crate) fn set_aux_bits(&self, bits: u32) {
        self.slot().set_aux_bits(bits);
    }
}

impl NewPage {
    /// Lets this page trigger the next readahead when it is reached.
    pub fn set_marker(&mut self) {
        self.slot().set_flags(State::MARKER);
    }

    /// Marks the page as read before anyone asked for it: its use, or its eviction before
    /// that, is counted. Its first use does not make it referenced, so that a
    /// file read once leaves earlier than pages read twice.
    pub fn set_readahead(&mut self) {
        self.slot().set_flags(State::READAHEAD);
    }

    /// Marks the page as read for the next lookup. As with a page
    /// read ahead, that first use does not make it referenced.
    pub fn set_wanted(&mut self) {
        self.slot().set_flags(State::WANTED);
    }

    /// Holds the page in the cache until [`PageCache::set_clean`](super::PageCache::set_clean).
    pub fn set_dirty(&mut self) {
        self.slot().set_flags(State::DIRTY);
    }

    /// As [`Page::set_aux_bits`].
    pub(crate) fn set_aux_bits(&mut self, bits: u32) {
        self.slot().set_aux_bits(bits);
    }
}

impl LockedPage<'_> {
    /// Holds the page in the cache until [`PageCache::set_clean`](super::PageCache::set_clean).
    pub fn set_dirty(&mut self) {
        self.slot().set_flags(State::DIRTY);
    }
}
