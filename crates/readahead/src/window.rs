//! The window: a run of pages to bring in, and the marker that triggers the next one.

use std::fmt;

/// Index of a page in its file, counted in pages from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIndex(pub u64);

impl PageIndex {
    /// Returns the page `count` pages further on, or the largest index.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// Returns the page `count` pages before, or page 0.
    pub(crate) const fn minus(self, count: u64) -> Self {
        Self(self.0.saturating_sub(count))
    }
}

impl fmt::Display for PageIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run of pages to bring into the page cache.
///
/// # Invariants
/// 1. `size` is at least 1, and `async_size` at most `size`.
/// 2. A window that a [`Policy`](crate::Policy) returns ends within the file. It is not larger than
///    the limit of its [`FileState`](crate::FileState), unless it is the request as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// First page of the window.
    pub start: PageIndex,
    /// Number of pages.
    pub size: u32,
    /// Number of pages at the end of the window that are ahead of the request.
    pub async_size: u32,
}

impl Window {
    /// Returns the page after the window: the readahead index.
    #[must_use]
    pub const fn end(&self) -> PageIndex {
        self.start.plus(self.size as u64)
    }

    /// Returns the page that carries the marker, or `None` if reading the window triggers nothing.
    ///
    /// The caller marks the page only if this window brought it in. A page that was resident before
    /// belongs to whichever window read it.
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

    /// Creates a window of `size` pages, with nothing read ahead.
    pub(crate) const fn unmarked(start: PageIndex, size: u32) -> Self {
        Self {
            start,
            size,
            async_size: 0,
        }
    }

    /// Creates a window of one page, with nothing read ahead.
    pub(crate) const fn alone(page: PageIndex) -> Self {
        Self::unmarked(page, 1)
    }

    /// Returns the part of the window that is inside a file of `file_pages` pages. The marker keeps
    /// its page. A marker past the end of the file is dropped, since there is nothing left to
    /// trigger.
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

/// The answer of a policy: the windows to bring in, in this order. There are at most two, since a
/// policy may open a stream's first window and the one ahead of it at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows([Option<Window>; 2]);

impl Windows {
    /// Nothing to bring in.
    pub const NONE: Self = Self([None, None]);

    /// Appends a window. A third one would be lost.
    pub(crate) fn push(&mut self, window: Window) {
        debug_assert!(
            self.0[1].is_none(),
            "a policy returned more than two windows"
        );
        let place = usize::from(self.0[0].is_some());
        self.0[place] = Some(window);
    }

    /// Returns the first window.
    #[must_use]
    pub const fn first(&self) -> Option<Window> {
        self.0[0]
    }

    /// Returns true if there is nothing to bring in.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }
}

impl From<Option<Window>> for Windows {
    fn from(window: Option<Window>) -> Self {
        Self([window, None])
    }
}

impl From<Window> for Windows {
    fn from(window: Window) -> Self {
        Self([Some(window), None])
    }
}

impl IntoIterator for Windows {
    type Item = Window;
    type IntoIter = std::iter::Flatten<std::array::IntoIter<Option<Window>, 2>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
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
