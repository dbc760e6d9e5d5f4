//! The state that a policy keeps for one open file, and its one tunable.
//!
//! Model: Linux's `file_ra_state`. One struct serves every policy, so a file's state does not
//! depend on which policy runs, and the lab can switch policies between two reads.
//!
//! Cost: at most 128 bytes for each file. It is `Copy`; its owner decides how it is locked.
//!
//! Tunables: `max_pages`, the largest window in pages. The default is [`DEFAULT_MAX_BYTES`] in 4
//! KiB pages, which is also Linux's (`read_ahead_kb` = 128). 0 switches readahead off for the file.

use crate::folio::Growth;
use crate::legacy::windows;
use crate::{Advice, PageIndex, Window, read_around, sizes};
use std::ops::Range;

/// The largest window by default, in bytes: 128 KiB, as in Linux.
pub const DEFAULT_MAX_BYTES: u64 = 128 * 1024;

/// The largest window by default, in pages of 4 KiB.
pub const DEFAULT_MAX_PAGES: u32 = 32;

/// The upper limit of all windows, whatever is configured: 256 MiB in pages of 4 KiB.
pub const MAX_PAGES_LIMIT: u32 = 1 << 16;

/// Converts a window limit of `bytes` to pages of `page_size_bytes`: at least one page unless
/// `bytes` is 0, and at most [`MAX_PAGES_LIMIT`].
#[must_use]
pub fn max_pages_from_bytes(bytes: u64, page_size_bytes: u32) -> u32 {
    let pages = bytes.div_ceil(u64::from(page_size_bytes.max(1)));
    u32::try_from(pages).map_or(MAX_PAGES_LIMIT, |pages| pages.min(MAX_PAGES_LIMIT))
}

/// The largest window for advice that a range will be needed: 2 MiB in pages of 4 KiB.
const FORCED_WINDOW_PAGES: u64 = 512;

/// The state of a file that only [`Modern`](crate::Modern) uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ModernState {
    /// The largest request that the device accepts; 0 stands for the largest window.
    io_pages: u32,
    /// Faults that missed, minus those that hit, but at least 0.
    pub(crate) mmap_miss: u16,
    /// The advice on faults.
    pub(crate) mapping: Advice,
    /// The size to which the folios of the stream have grown.
    pub(crate) growth: Growth,
    /// The last decision was a window of the stream, which is read in folios of that size.
    pub(crate) in_folios: bool,
}

/// The state that a policy keeps for one open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileState {
    /// The last window, not clipped to the file: empty (size 0) until there is one.
    pub(crate) window: Window,
    /// The last page of the last read; `u64::MAX` before the first, so that page 0 follows it.
    pub(crate) previous: PageIndex,
    /// The last read ended inside that page, not at its end.
    pub(crate) previous_ends_inside: bool,
    /// What `legacy` uses instead of `window` and `previous`.
    pub(crate) legacy: windows::State,
    /// Hits and misses of faults, for the policies that read around them.
    pub(crate) read_around: read_around::State,
    /// What `modern` uses in addition to `window` and `previous`.
    pub(crate) modern: ModernState,
    /// The advice on reads: normal, sequential or random.
    pub(crate) advice: Advice,
    /// Sequential reads were advised, and `Normal` was not advised since.
    pub(crate) doubled: bool,
    max_pages: u32,
}

impl FileState {
    /// Creates the state of a file that was just opened.
    #[must_use]
    pub fn new(max_pages: u32) -> Self {
        Self {
            window: Window::unmarked(PageIndex(0), 0),
            previous: PageIndex(u64::MAX),
            previous_ends_inside: false,
            legacy: windows::State::NEW,
            read_around: read_around::State::default(),
            modern: ModernState::default(),
            advice: Advice::Normal,
            doubled: false,
            max_pages: max_pages.min(MAX_PAGES_LIMIT),
        }
    }

    /// Sets the largest window of this file for later reads.
    pub fn set_max_pages(&mut self, max_pages: u32) {
        self.max_pages = max_pages.min(MAX_PAGES_LIMIT);
    }

    /// Returns the largest window of this file: twice the configured size if sequential reads are
    /// [advised](Self::advise).
    #[must_use]
    pub fn max_pages(&self) -> u32 {
        if self.doubled {
            (self.max_pages * 2).min(MAX_PAGES_LIMIT)
        } else {
            self.max_pages
        }
    }

    /// Returns the same, but 0 for random reads. This is for policies in which that advice disables
    /// readahead.
    pub(crate) fn max_pages_unless_random(&self) -> u32 {
        match self.advice {
            Advice::Random => 0,
            _ => self.max_pages(),
        }
    }

    /// Sets the last page that was read, and whether the read ended inside it.
    /// [`Policy::end_read`](crate::Policy::end_read) does this too. A caller may keep the page in
    /// an atomic of its own, so that hits need no lock. It then updates the page here before it
    /// requests a decision.
    pub fn set_previous(&mut self, page: PageIndex, ends_inside: bool) {
        self.previous = page;
        self.previous_ends_inside = ends_inside;
    }

    /// Returns true if a read of `page` continues where the last one ended, or repeats its last
    /// page.
    pub(crate) fn is_sequential(&self, page: PageIndex) -> bool {
        page.0.wrapping_sub(self.previous.0) <= 1
    }

    /// Opens the window after the last one, a step up the ramp, all of it asynchronous.
    pub(crate) fn push_forward(&mut self) -> Window {
        let size = sizes::next(self.window.size, self.max_pages());
        self.window = Window {
            start: self.window.end(),
            size,
            async_size: size,
        };
        self.window
    }

    /// Sets the advice on reads of the file. `WillNeed` and `DontNeed` have no effect here.
    pub fn advise(&mut self, advice: Advice) {
        match advice {
            Advice::Normal => self.doubled = false,
            Advice::Sequential => self.doubled = true,
            Advice::Random => {}
            Advice::WillNeed | Advice::DontNeed => return,
        }
        self.advice = advice;
    }

    /// Returns the window for the advice that `pages` will be needed, in a file of `file_pages`.
    ///
    /// As in Linux, this is only the beginning of the range: as much as the largest window or the
    /// largest request of the device, whichever is more.
    pub fn will_need(
        &self,
        pages: Range<u64>,
        file_pages: u64,
    ) -> impl Iterator<Item = Window> + use<> {
        let most = u64::from(self.max_pages().max(self.io_pages()));
        let end = pages
            .end
            .min(file_pages)
            .min(pages.start.saturating_add(most));
        let mut next = pages.start;
        std::iter::from_fn(move || {
            let size = end.checked_sub(next)?.min(FORCED_WINDOW_PAGES);
            let pages = u32::try_from(size).ok().filter(|size| *size > 0)?;
            let window = Window::unmarked(PageIndex(next), pages);
            next += size;
            Some(window)
        })
    }

    /// Sets the advice on faults of a mapping of the file.
    pub fn advise_mapping(&mut self, advice: Advice) {
        match advice {
            Advice::Normal | Advice::Sequential | Advice::Random => self.modern.mapping = advice,
            Advice::WillNeed | Advice::DontNeed => {}
        }
    }

    /// Sets the largest request that the device accepts at once, in pages. A request that is larger
    /// than the largest window gets a window up to this size. 0, the default, stands for the
    /// largest window.
    pub fn set_io_pages(&mut self, io_pages: u32) {
        self.modern.io_pages = io_pages.min(MAX_PAGES_LIMIT);
    }

    /// Returns the largest request that the device accepts at once, in pages.
    pub(crate) fn io_pages(&self) -> u32 {
        match self.modern.io_pages {
            0 => self.max_pages(),
            pages => pages,
        }
    }
}

impl Default for FileState {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_PAGES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_pages_from_bytes_rounds_up_and_stays_within_the_limit() {
        assert_eq!(
            max_pages_from_bytes(DEFAULT_MAX_BYTES, 4096),
            DEFAULT_MAX_PAGES
        );
        assert_eq!(max_pages_from_bytes(DEFAULT_MAX_BYTES, 65536), 2);
        assert_eq!(max_pages_from_bytes(1, 4096), 1);
        assert_eq!(max_pages_from_bytes(0, 4096), 0);
        assert_eq!(max_pages_from_bytes(u64::MAX, 0), MAX_PAGES_LIMIT);
        assert_eq!(FileState::new(u32::MAX).max_pages(), MAX_PAGES_LIMIT);
    }

    #[test]
    fn only_page_zero_is_sequential_before_the_first_read() {
        let mut state = FileState::default();
        assert!(state.is_sequential(PageIndex(0)));
        assert!(!state.is_sequential(PageIndex(1)));
        state.set_previous(PageIndex(7), false);
        let sequential: Vec<u64> = (0..20)
            .filter(|p| state.is_sequential(PageIndex(*p)))
            .collect();
        assert_eq!(sequential, [7, 8]);
    }

    #[test]
    fn state_of_a_file_stays_small() {
        assert!(size_of::<FileState>() <= 128);
    }
}
