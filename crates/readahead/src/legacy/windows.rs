//! The current window and the ahead window of an open file, and how a request changes them.

use crate::{PageIndex, Read, Residency, Window, Windows, sizes};

/// The smallest size of the ahead window after thrashing, unless `max_pages` is smaller: 16 KiB in pages
/// of 4 KiB.
pub(super) const MIN_PAGES: u32 = 4;

/// If readahead finds this many consecutive pages in the cache, readahead is switched off.
pub(super) const CACHED_PAGES: u32 = 256;

/// The value for "no window". Stored windows are not clipped to the file, and have no marker.
const NONE: Window = Window::unmarked(PageIndex(0), 0);

/// The state of one open file. The names of the fields in Linux 2.6.20 are in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The current window, which the reader is reading. (`start`, `size`)
    current: Window,
    /// The ahead window, which follows the current window. (`ahead_start`, `ahead_size`)
    ahead: Window,
    /// The last page that a decision has covered. Before the first request it is `u64::MAX`, so that page 0
    /// is the next page. (`prev_page`)
    previous: PageIndex,
    /// The number of pages that readahead found resident since it last read a page. (`cache_hit`)
    cached_pages: u32,
    /// Whether readahead is switched off because the file is cached. (`RA_FLAG_INCACHE`)
    is_cached: bool,
    /// Whether a page was missing at its lookup. If so, the next ahead window is smaller. (`RA_FLAG_MISS`)
    has_missed: bool,
}

impl State {
    /// The initial state of an open file.
    pub(crate) const NEW: Self = Self {
        current: NONE,
        ahead: NONE,
        previous: PageIndex(u64::MAX),
        cached_pages: 0,
        is_cached: false,
        has_missed: false,
    };

    pub(super) fn next_page(&self) -> PageIndex {
        PageIndex(self.previous.0.wrapping_add(1))
    }

    fn check_invariants(&self) {
        debug_assert!(
            self.ahead.size == 0 || self.ahead.start == self.current.end(),
            "invariant 1 is violated: {self:?}"
        );
        debug_assert!(
            !self.is_cached || (self.current.size == 0 && self.ahead.size == 0),
            "invariant 2 is violated: {self:?}"
        );
    }

    fn reset_windows(&mut self) {
        self.current = NONE;
        self.ahead = NONE;
        self.has_missed = false;
    }

    pub(super) fn miss(&mut self) {
        self.has_missed = true;
        self.is_cached = false;
        self.cached_pages = 0;
    }

    pub(super) fn window_read(&mut self, window: Window, new_pages: u32) {
        if new_pages > 0 {
            self.cached_pages = 0;
            return;
        }
        // Count the size of the stored window, which includes pages past the end of the file.
        let whole = [self.current, self.ahead]
            .into_iter()
            .find(|whole| whole.start == window.start && whole.size > 0);
        self.found_cached(whole.unwrap_or(window).size);
    }

    /// Records that all pages of a window of `pages` pages were resident.
    fn found_cached(&mut self, pages: u32) {
        self.cached_pages = self.cached_pages.saturating_add(pages);
        if self.cached_pages >= CACHED_PAGES {
            self.reset_windows();
            self.is_cached = true;
        }
    }

    /// Returns the size of the next ahead window.
    fn next_size(&mut self, max_pages: u32) -> u32 {
        if std::mem::take(&mut self.has_missed) {
            let less = self.current.size.saturating_sub(2);
            return less.max(MIN_PAGES).min(max_pages);
        }
        sizes::next(self.current.size, max_pages)
    }
}

/// A decision in progress: its input, and the windows that it has opened.
pub(super) struct Decision<'a> {
    pub(super) state: &'a mut State,
    pub(super) read: &'a Read,
    pub(super) resident: &'a dyn Residency,
    pub(super) max_pages: u32,
    pub(super) windows: Windows,
}

impl Decision<'_> {
    pub(super) fn access(mut self) -> Windows {
        let mut index = self.read.index;
        let mut request = self.read.rest_pages();
        if index == self.state.previous {
            request -= 1;
            if request > 0 {
                index = index.plus(1);
            }
        }
        let is_sequential = index == self.state.next_page();
        self.state.previous = index;
        let pages = request.min(self.max_pages);
        self.state.check_invariants();
        if pages == 0 || self.state.is_cached {
            return Windows::NONE;
        }
        self.state.previous = index.plus(u64::from(pages - 1));
        if !is_sequential {
            self.state.reset_windows();
            self.add_window(Window::unmarked(index, pages));
        } else if self.state.current.size == 0 {
            self.open(index, pages, request);
        } else {
            self.advance();
        }
        self.state.check_invariants();
        self.windows
    }

    /// Opens the first current window of a stream. Also opens the ahead window if the request is as large
    /// as the largest window.
    fn open(&mut self, start: PageIndex, pages: u32, request: u32) {
        let size = sizes::initial(pages, self.max_pages);
        self.state.current = Window::unmarked(start, size);
        if self.add_window(self.state.current) && request >= self.max_pages {
            self.look_ahead(true);
        }
    }

    /// Opens the ahead window if none is open. If the request reaches the ahead window, makes it the
    /// current window, and opens the next ahead window.
    fn advance(&mut self) {
        if self.state.ahead.size == 0 && !self.look_ahead(false) {
            return;
        }
        if self.state.previous < self.state.ahead.start {
            return;
        }
        self.state.current = self.state.ahead;
        if self.look_ahead(false) {
            // The policy is consulted again for the part of the request after the new ahead window.
            let last = self.state.ahead.end().minus(1);
            self.state.previous = self.state.previous.min(last);
        }
    }

    /// Opens the ahead window. On a congested device, opens the window only if `forced` is true, or if the
    /// request reaches the window, because then the reader waits for pages of the window. Returns false if
    /// the window was not opened, or if readahead was switched off.
    fn look_ahead(&mut self, forced: bool) -> bool {
        let start = self.state.current.end();
        let size = self.state.next_size(self.max_pages);
        let waited_for = forced || self.state.previous >= start;
        if self.read.congested && !waited_for {
            self.state.ahead = NONE;
            return false;
        }
        self.state.ahead = Window::unmarked(start, size);
        self.add_window(self.state.ahead)
    }

    /// Adds the part of the window `whole` that is inside the file to the windows to return. If no page of
    /// `whole` is inside the file, or if the window [ends readahead](Self::ends_readahead), counts the pages
    /// of `whole` as resident instead. Returns false if readahead was switched off.
    fn add_window(&mut self, whole: Window) -> bool {
        match whole.clip(self.read.file_pages) {
            Some(window) if !self.ends_readahead(whole, window) => self.windows.push(window),
            _ => self.state.found_cached(whole.size),
        }
        !self.state.is_cached
    }

    /// Returns true if all pages of `window` are resident, and the number of consecutive resident pages,
    /// including `whole`, is large enough to switch readahead off. `window` is the part of `whole` that is
    /// inside the file.
    fn ends_readahead(&self, whole: Window, window: Window) -> bool {
        self.state.cached_pages.saturating_add(whole.size) >= CACHED_PAGES
            && self.resident.next_hole(window.start, window.size).is_none()
    }
}
