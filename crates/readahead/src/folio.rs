//! Large folios: the units of memory into which the kernel that `modern` models reads its windows.
//!
//! Model: if the file system allows it, Linux's page cache stores a file in folios of 2^order
//! pages, aligned to their size. Larder's page cache has only single pages. This module exists so that
//! `modern` can be compared with a kernel that uses large folios, and so that the effect of large folios
//! can be measured. It has an effect only after a call of
//! [`FileState::set_largest_folio`](crate::FileState::set_largest_folio). Without this call, folios are
//! single pages. The public items of the module are hidden from the documentation and are not stable,
//! because only the tests that replay recordings of a kernel use them. In the drawing, "12+12" is a window
//! of 12 pages that starts at page 12.
//!
//! ```text
//!   window 12+12, order 2:   |  12..15  |  16..19  |  20..23  |
//!   window 13+12, order 3:   |13|14 15|    16..23   |24|
//!                                  ^ each folio is as large as its start allows
//! ```
//!
//! A stream begins with single pages. In each window that a marked page triggers, a folio may have four
//! times as many pages as the folios of the previous window. But a folio has at most the size of the
//! largest folio that the page cache supports, and at most the size of its window. Large folios change the
//! windows as follows:
//!
//! 1. The end of a window that a marked page triggers is rounded down to a multiple of four times the folio
//!    size of the previous window. If the limit (defined in `modern.rs`) is not a multiple of that number,
//!    the end is rounded down to a multiple of the largest power of two that divides the limit. The same
//!    rule applies to windows of single pages: their ends are rounded down to a multiple of at most four
//!    pages.
//! 2. The marker is on the folio that contains the first asynchronous page. The folio can start before
//!    that page. A read of any page of the folio requests the same window as a read of its first page.
//! 3. If the end of the file cuts a window, the marker stays on its page. With single pages, the
//!    asynchronous part keeps its size instead.
//! 4. If a page in the range of a folio is already cached, the folio cannot be used. The kernel then reads
//!    the rest of the window in single pages, as a second window
//!    ([`FileState::rest_in_single_pages`](crate::FileState::rest_in_single_pages)).

use crate::PageIndex;

/// The increase of the order from one window to the next. With 2, a folio grows to four times its size.
const GROWTH: u8 = 2;

/// The largest order of a folio: 128 MiB in pages of 4 KiB.
pub(crate) const LARGEST_ORDER: u8 = 15;

/// The size of the folios of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Growth {
    /// The order of the folios of the last window.
    pub(crate) order: u8,
    /// The largest order that the page cache supports. 0 means single pages.
    pub(crate) largest: u8,
}

impl Growth {
    /// Returns true if the page cache supports large folios.
    pub(crate) fn has_large(self) -> bool {
        self.largest > 0
    }

    /// Resets the folio size to single pages.
    pub(crate) fn restart(&mut self) {
        self.order = 0;
    }

    /// Sets the order for the folios of the next window, which starts at `start` and has at most `size`
    /// pages. Returns the size of the window, reduced so that its end is rounded down as rule 1 of the
    /// module describes. If the window would then be empty, returns `size`.
    pub(crate) fn grow(&mut self, start: PageIndex, size: u32, max_pages: u32) -> u32 {
        let order = self.order + GROWTH;
        let alignment = 1_u64 << u32::from(order).min(max_pages.trailing_zeros());
        let over = start.plus(size.into()).0 % alignment;
        let size = match u32::try_from(over) {
            Ok(over) if over < size => size - over,
            _ => size,
        };
        let fits = u8::try_from(size.max(1).ilog2()).unwrap_or(LARGEST_ORDER);
        self.order = order.min(self.largest).min(fits);
        size
    }
}

/// A contiguous, aligned run of pages that the page cache handles as a unit.
#[doc(hidden)] // Only tests/kernel uses folios of more than one page; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// The first page of the folio.
    pub start: PageIndex,
    /// The binary logarithm of the number of pages.
    pub order: u8,
}

impl Folio {
    /// Returns the number of pages in the folio.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        1 << self.order
    }

    /// Returns the page after the folio.
    #[must_use]
    pub const fn end(&self) -> PageIndex {
        self.start.plus(self.pages())
    }

    /// Returns true if `page` is in the folio.
    #[must_use]
    pub const fn contains(&self, page: PageIndex) -> bool {
        page.0 >= self.start.0 && page.0 < self.end().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileState, Window};

    fn layout(order: u8, start: u64, size: u32) -> Vec<(u64, u8)> {
        let mut state = FileState::default();
        state.modern.in_folios = true;
        state.modern.growth.order = order;
        let window = Window {
            start: PageIndex(start),
            size,
            async_size: 0,
        };
        let folios = state.folios(window);
        folios.map(|folio| (folio.start.0, folio.order)).collect()
    }

    #[test]
    fn folios_of_a_window_are_as_large_as_their_index_allows() {
        assert_eq!(layout(2, 12, 12), [(12, 2), (16, 2), (20, 2)]);
        assert_eq!(layout(3, 13, 12), [(13, 0), (14, 1), (16, 3), (24, 0)]);
        assert_eq!(layout(0, 7, 2), [(7, 0), (8, 0)]);
        assert_eq!(layout(4, u64::MAX - 1, 1), [(u64::MAX - 1, 0)]);
        assert_eq!(layout(4, 0, 0), []);
    }

    #[test]
    fn end_of_a_marked_window_is_rounded_down_to_its_alignment() {
        // (order before, largest, start, size, limit) to (size, order).
        let cases = [
            (0, 0, 4, 8, 32, 8, 0),
            (0, 0, 49, 49, 32, 47, 0),
            (0, 0, 49, 49, 31, 49, 0),
            (0, 0, 12, 3, 32, 3, 0),
            (2, 9, 12, 16, 32, 4, 2),
            (2, 9, 96, 49, 49, 49, 4),
            (5, 9, 64, 32, 32, 32, 5),
            (9, 9, 0, 4096, 4096, 4096, 9),
        ];
        for (before, largest, start, size, limit, want, order) in cases {
            let mut growth = Growth {
                order: before,
                largest,
            };
            let got = growth.grow(PageIndex(start), size, limit);
            assert_eq!((got, growth.order), (want, order), "{start}+{size}");
        }
    }
}
