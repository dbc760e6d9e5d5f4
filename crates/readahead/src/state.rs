//! The state that a policy keeps for one open file, and the tunables of that file.
//!
//! Model: Linux's `file_ra_state`. All policies use the same struct, so the lab can switch to another
//! policy between two reads of a file.
//!
//! Cost: at most 128 bytes for each open file. The owner of the state decides how it is locked. If
//! [`Adaptive`](crate::Adaptive) has made a decision for the file, its tables are allocated in addition.
//!
//! Tunables: `max_pages` is the size of the largest window, in pages. [`Window`] lists the exceptions. The
//! default is [`DEFAULT_MAX_PAGES`]: 128 KiB in pages of 4 KiB. Linux has the same
//! default (`read_ahead_kb` = 128). A value of 0 disables readahead for the file, except that the advice
//! `WillNeed` still reads up to `io_pages`. `io_pages` is the largest request that the device accepts
//! ([`FileState::set_io_pages`]).

use crate::adaptive::FileStreams;
use crate::folio::Growth;
use crate::legacy::windows;
use crate::sizes::MAX_PAGES_LIMIT;
use crate::{Advice, Balance, PageIndex, Window, read_around, sizes};
use std::ops::Range;
use std::sync::Arc;

/// The default size of the largest window, in bytes: 128 KiB, as in Linux.
pub const DEFAULT_MAX_BYTES: u64 = 128 * 1024;

/// The default size of the largest window, in pages of 4 KiB.
pub const DEFAULT_MAX_PAGES: u32 = 32;

/// Converts a window size of `bytes` to a number of pages of `page_size_bytes`, rounded up. The result
/// is at most [`MAX_PAGES_LIMIT`].
#[must_use]
pub fn max_pages_from_bytes(bytes: u64, page_size_bytes: u32) -> u32 {
    let pages = bytes.div_ceil(u64::from(page_size_bytes.max(1)));
    u32::try_from(pages).map_or(MAX_PAGES_LIMIT, |pages| pages.min(MAX_PAGES_LIMIT))
}

/// The largest size of a window for the advice `WillNeed`: 2 MiB in pages of 4 KiB.
const FORCED_WINDOW_PAGES: u64 = 512;

/// `first_pages` applies only to requests of at least `first_pages / FIRST_REQUEST_DIVISOR` pages. Such a large
/// request indicates a sequential read.
const FIRST_REQUEST_DIVISOR: u32 = 16;

/// The part of the state that [`Modern`](crate::Modern) uses. [`FileState::will_need`] also uses `io_pages`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ModernState {
    /// The largest request that the device accepts, in pages; 0 stands for [`FileState::max_pages`].
    io_pages: u32,
    /// The number of faults that missed, minus the number of faults that hit; from 0 to 1000. Misses are
    /// not counted while sequential or random reads are advised on the mapping.
    pub(crate) mmap_miss: u16,
    /// The advice on faults of a mapping.
    pub(crate) mapping: Advice,
    /// The size of the stream's folios, which grows with each window that a marked page triggers.
    pub(crate) growth: Growth,
    /// Whether the last decision saved its window in `FileState::window`; the pages of such a window are read
    /// in folios of at most the size in `growth`.
    pub(crate) in_folios: bool,
}

/// The state that a policy keeps for one open file.
#[derive(Clone, Debug)]
pub struct FileState {
    /// The last window, not clipped to the file. Its size is 0 before the first window.
    pub(crate) window: Window,
    /// The last page of the last read. Before the first read it is `u64::MAX`, so that page 0 is the
    /// next page.
    pub(crate) previous: PageIndex,
    /// Whether the last read ended inside the page `previous`, not at its end.
    pub(crate) previous_ends_inside: bool,
    /// The state that `legacy` uses instead of `window` and `previous`.
    pub(crate) legacy: windows::State,
    /// The hits and misses of faults, for `legacy` and `ondemand`.
    pub(crate) read_around: read_around::State,
    /// The state that `modern` uses in addition to `window` and `previous`.
    pub(crate) modern: ModernState,
    /// The advice on reads: normal, sequential or random.
    pub(crate) advice: Advice,
    /// Whether `max_pages` is doubled: `Sequential` was advised, and `Normal` has not been advised since.
    pub(crate) doubled: bool,
    max_pages: u32,
    /// The minimum size of the first window ([`FileState::set_first_pages`]).
    first_pages: u32,
    /// The state that `adaptive` uses instead of `window`. `None` before its first decision, unless
    /// [`FileState::share`] was called.
    pub(crate) adaptive: Option<Box<FileStreams>>,
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
            first_pages: 0,
            adaptive: None,
        }
    }

    /// Makes [`Adaptive`](crate::Adaptive) use `balance` for this file. All files of a device and a cache should
    /// share one [`Balance`].
    pub fn share(&mut self, balance: &Arc<Balance>) {
        self.adaptive = Some(Box::new(FileStreams::new(Arc::clone(balance))));
    }

    /// Sets the minimum size of the first window of a stream, in pages. The minimum applies only if the request
    /// has at least a sixteenth of this size. A device with a long delay needs larger first windows than those of
    /// Linux. 0, the default, stands for the sizes of Linux. [`Legacy`](crate::Legacy) ignores the minimum.
    pub fn set_first_pages(&mut self, first_pages: u32) {
        self.first_pages = first_pages;
    }

    /// Returns the size of the first window of a stream, for a request of `request_pages` pages: the size in
    /// Linux ([`sizes::initial`]), or the minimum of [`FileState::set_first_pages`] if that is larger and
    /// applies. The result is at most `max_pages`.
    pub(crate) fn initial_size(&self, request_pages: u32, max_pages: u32) -> u32 {
        let size = sizes::initial(request_pages, max_pages);
        if request_pages >= self.first_pages / FIRST_REQUEST_DIVISOR {
            size.max(self.first_pages.min(max_pages))
        } else {
            size
        }
    }

    /// Sets the size of the largest window of this file in pages, for later reads.
    pub fn set_max_pages(&mut self, max_pages: u32) {
        self.max_pages = max_pages.min(MAX_PAGES_LIMIT);
    }

    /// Returns the size of the largest window of this file, in pages. It is twice the configured size after
    /// [advice](Self::advise) of sequential reads, until normal reads are advised. A window of
    /// [`Modern`](crate::Modern) may be larger ([`FileState::set_io_pages`]).
    #[must_use]
    pub fn max_pages(&self) -> u32 {
        if self.doubled {
            (self.max_pages * 2).min(MAX_PAGES_LIMIT)
        } else {
            self.max_pages
        }
    }

    /// Returns 0 if random reads are advised, otherwise [`FileState::max_pages`]. Called only by policies that
    /// do no readahead when random reads are advised.
    pub(crate) fn max_pages_unless_random(&self) -> u32 {
        match self.advice {
            Advice::Random => 0,
            _ => self.max_pages(),
        }
    }

    /// Sets the last page that was read, and whether the read ended inside that page.
    /// [`Policy::end_read`](crate::Policy::end_read) calls this. Alternatively, a caller may store the
    /// last page in an atomic of its own, so that a hit needs no lock. The caller must then set the
    /// page here before it requests a decision.
    pub fn set_previous(&mut self, page: PageIndex, ends_inside: bool) {
        self.previous = page;
        self.previous_ends_inside = ends_inside;
    }

    /// Returns true if `page` is the last page of the last read, or the page after it.
    pub(crate) fn is_sequential(&self, page: PageIndex) -> bool {
        page.0.wrapping_sub(self.previous.0) <= 1
    }

    /// Opens the window that follows the last window. It has the next larger size
    /// ([`sizes::next`]), and all of it is asynchronous.
    pub(crate) fn push_forward(&mut self) -> Window {
        let size = sizes::next(self.window.size, self.max_pages());
        self.window = Window {
            start: self.window.end(),
            size,
            async_size: size,
        };
        self.window
    }

    /// Sets the advice on reads of the file. `WillNeed` and `DontNeed` do not change this state.
    pub fn advise(&mut self, advice: Advice) {
        match advice {
            Advice::Normal => self.doubled = false,
            Advice::Sequential => self.doubled = true,
            Advice::Random => {}
            Advice::WillNeed | Advice::DontNeed => return,
        }
        self.advice = advice;
    }

    /// Returns the windows to read after the advice `WillNeed` for `pages`, in a file of `file_pages`
    /// pages.
    ///
    /// As in Linux, only the beginning of the range is read: at most `max(max_pages, io_pages)` pages.
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
    ///
    /// It serves the replay of recordings of the kernel (`tests/kernel`), which contain faults. Larder's
    /// mounts cannot call it: the kernel handles the faults of their mappings, and sends only reads.
    #[doc(hidden)]
    pub fn advise_mapping(&mut self, advice: Advice) {
        match advice {
            Advice::Normal | Advice::Sequential | Advice::Random => self.modern.mapping = advice,
            Advice::WillNeed | Advice::DontNeed => {}
        }
    }

    /// Sets the size of the largest request that the device accepts, in pages. If a reader requests more
    /// pages than [`FileState::max_pages`], a window of [`Modern`](crate::Modern) may have up to this size.
    /// 0, the default, stands for [`FileState::max_pages`].
    pub fn set_io_pages(&mut self, io_pages: u32) {
        self.modern.io_pages = io_pages.min(MAX_PAGES_LIMIT);
    }

    /// Returns the size of the largest request that the device accepts, in pages.
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
    fn first_window_is_larger_only_for_a_large_request() {
        let mut state = FileState::new(1000);
        assert_eq!(state.initial_size(32, 1000), sizes::initial(32, 1000));
        state.set_first_pages(512);
        assert_eq!(state.initial_size(31, 1000), sizes::initial(31, 1000));
        assert_eq!(state.initial_size(32, 1000), 512);
        assert_eq!(state.initial_size(600, 1000), 1000);
        assert_eq!(state.initial_size(32, 100), 100);
    }

    #[test]
    fn state_of_a_file_stays_small() {
        assert!(size_of::<FileState>() <= 128);
    }
}
