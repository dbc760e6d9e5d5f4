//! The window: a run of pages to read, and the position of the marker that triggers the next window.

use std::fmt;

/// Index of a page in its file, counted in pages from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIndex(pub u64);

impl PageIndex {
    /// Returns the index `count` pages after this one, at most the largest index.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// Returns the index `count` pages before this one, at least 0.
    pub(crate) const fn minus(self, count: u64) -> Self {
        Self(self.0.saturating_sub(count))
    }
}

impl fmt::Display for PageIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run of pages to read into the page cache.
///
/// # Invariants
/// 1. `size` is at least 1, and `async_size` is at most `size`.
/// 2. A window that a [`Policy`](crate::Policy) returns ends within the file. It has at most
///    [`max_pages`](crate::FileState::max_pages) pages. There are three exceptions: a window of exactly the
///    pages from the current page to the end of the request can have any size,
///    [`set_io_pages`](crate::FileState::set_io_pages) can permit larger windows, and the windows of
///    [`Adaptive`](crate::Adaptive) have the size that its [`Balance`](crate::Balance) permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// First page of the window.
    pub start: PageIndex,
    /// Number of pages.
    pub size: u32,
    /// Number of pages in the asynchronous part, which is the end of the window.
    pub async_size: u32,
}

impl Window {
    /// Returns the index of the page after the window, which is called the readahead index.
    #[must_use]
    pub const fn end(&self) -> PageIndex {
        self.start.plus(self.size as u64)
    }

    /// Returns the page that is to carry the marker: the first page of the asynchronous part. Returns
    /// `None` if the window has no asynchronous part.
    ///
    /// The caller must mark the page only if the page is inserted for this window. A page that was
    /// already present belongs to the window for which it was inserted.
    #[must_use]
    pub const fn marker(&self) -> Option<PageIndex> {
        if self.async_size == 0 {
            return None;
        }
        Some(self.start.plus((self.size - self.async_size) as u64))
    }

    /// Returns true if `page` is within the window.
    #[must_use]
    pub const fn contains(&self, page: PageIndex) -> bool {
        page.0 >= self.start.0 && page.0 < self.end().0
    }

    /// Creates a window of `size` pages without an asynchronous part.
    pub(crate) const fn unmarked(start: PageIndex, size: u32) -> Self {
        Self {
            start,
            size,
            async_size: 0,
        }
    }

    /// Creates a window of one page without an asynchronous part.
    pub(crate) const fn alone(page: PageIndex) -> Self {
        Self::unmarked(page, 1)
    }

    /// Returns the part of the window that is inside a file of `file_pages` pages, or `None` if the whole
    /// window is past the end of the file. The marker stays on its page. If that page is past the end of
    /// the file, the result has no marker, because the reader needs no later window.
    pub(crate) fn clip(self, file_pages: u64) -> Option<Self> {
        let room = file_pages
            .checked_sub(self.start.0)
            .filter(|room| *room > 0)?;
        let size = u32::try_from(room).map_or(self.size, |room| self.size.min(room));
        let lost = self.size - size;
        Some(Self {
            size,
            async_size: self.async_size.saturating_sub(lost),
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        start: PageIndex(10),
        size: 8,
        async_size: 3,
    };

    #[test]
    fn marker_with_asynchronous_pages_is_the_first_of_them() {
        assert_eq!(WINDOW.marker(), Some(PageIndex(15)));
        assert_eq!(WINDOW.end(), PageIndex(18));
        assert_eq!(
            Window {
                async_size: 0,
                ..WINDOW
            }
            .marker(),
            None
        );
        assert_eq!(
            Window {
                async_size: 8,
                ..WINDOW
            }
            .marker(),
            Some(PageIndex(10))
        );
    }

    #[test]
    fn clip_at_end_of_file_keeps_the_marker_page() {
        let cases = [
            (18, Some((8, 3))),
            (100, Some((8, 3))),
            (u64::MAX, Some((8, 3))),
            (17, Some((7, 2))),
            (16, Some((6, 1))),
            (15, Some((5, 0))),
            (11, Some((1, 0))),
            (10, None),
            (0, None),
        ];
        for (file_pages, want) in cases {
            let got = WINDOW.clip(file_pages).map(|w| (w.size, w.async_size));
            assert_eq!(got, want, "file of {file_pages} pages");
        }
    }
}
