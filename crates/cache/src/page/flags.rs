//! Methods of pages that read and set their flags.

use super::bytes::{LockedPage, NewPage, Page};
use crate::table::State;

impl Page<'_> {
    /// Returns true if the page was used since the clock hand last passed it. The read of the page from
    /// the device does not count as a use. If the page was inserted with [`NewPage::set_readahead`] or
    /// [`NewPage::set_wanted`], its first use does not count either.
    #[must_use]
    pub fn is_referenced(&self) -> bool {
        self.slot().state().has(State::REFERENCED)
    }

    /// Returns true if the device does not have the page's present contents.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.slot().state().has(State::DIRTY)
    }

    /// Marks the page as dirty, which prevents its eviction until
    /// [`PageCache::set_clean`](super::PageCache::set_clean), even when the page is no longer pinned.
    pub fn set_dirty(&self) {
        self.slot().set_flags(State::DIRTY);
    }

    /// Clears the readahead marker of the page. Returns true if the page had the marker; the caller must
    /// then start the next readahead.
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

    /// Sets `bits` in the half word of the page's slot ([`Slot::aux`](crate::table::Slot::aux)). The bits
    /// describe the contents, and are kept until the page is evicted or removed.
    pub(crate) fn set_aux_bits(&self, bits: u32) {
        self.slot().set_aux_bits(bits);
    }
}

impl NewPage {
    /// Sets the readahead marker, so that a read of this page triggers the next readahead.
    pub fn set_marker(&mut self) {
        self.slot().set_flags(State::MARKER);
    }

    /// Marks the page as read ahead. The statistics count its first use, or its eviction if that is
    /// earlier. The first use does not make the page referenced. So pages that are read once are evicted
    /// before pages that are read twice.
    pub fn set_readahead(&mut self) {
        self.slot().set_flags(State::READAHEAD);
    }

    /// Records that the page is read because a request needs it. The request looks it up next. As for a
    /// page that was read ahead, this first use does not make the page referenced.
    pub fn set_wanted(&mut self) {
        self.slot().set_flags(State::WANTED);
    }

    /// Makes the page dirty, which prevents its eviction until
    /// [`PageCache::set_clean`](super::PageCache::set_clean).
    pub fn set_dirty(&mut self) {
        self.slot().set_flags(State::DIRTY);
    }

    /// Sets `bits` in the half word of the page's slot, as [`Page::set_aux_bits`] does.
    pub(crate) fn set_aux_bits(&mut self, bits: u32) {
        self.slot().set_aux_bits(bits);
    }
}

impl LockedPage<'_> {
    /// Makes the page dirty, which prevents its eviction until
    /// [`PageCache::set_clean`](super::PageCache::set_clean).
    pub fn set_dirty(&mut self) {
        self.slot().set_flags(State::DIRTY);
    }
}
