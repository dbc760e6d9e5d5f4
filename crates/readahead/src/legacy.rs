//! Readahead of Linux 2.6.20, the last design before on-demand readahead.
//!
//! Model: an open file has two consecutive windows. While the reader consumes the current window, the
//! pages of the ahead window are read from the device. When the reader reaches the ahead window, that
//! window becomes the current window, and a new ahead window is opened.
//!
//! ```text
//!        current window                 ahead window
//!   |<------- size ------->|<----------- ahead size ------------>|
//! --+----------------------+-------------------------------------+---> page index
//!   ^            ^         ^                                     ^
//! start      previous   ahead start: a read of this page       the next ahead
//!              page     makes this the current window          window starts here
//! ```
//!
//! The policy is consulted before the lookup of the first page of a request. A decision covers at most
//! as many pages as the largest window. If the request is longer, the policy is consulted again before
//! the first page that is not covered.
//!
//! In the table, "the last page" is the last page that a decision has covered.
//!
//! | the first page to cover | windows |
//! |---|---|
//! | is the last page again | no window if the request ends with that page; otherwise the row for the next page applies |
//! | does not follow the last page | one window with the rest of the request; the current and the ahead window are dropped |
//! | follows the last page; there is no current window | a current window of the initial size; if the request is at least as large as the largest window, also the ahead window |
//! | follows the last page; there is no ahead window | the ahead window, of the next larger size; then the following row is examined, too |
//! | follows the last page; the request reaches the ahead window | that window becomes the current window, and the next ahead window is opened |
//!
//! - No page carries a marker. [`Window::async_size`] is 0 in every window, even if no reader waits for
//!   its pages, and the policy returns no window for [`Trigger::Marker`].
//! - If the device is congested, an ahead window is opened only if the request reaches it, or opens a
//!   current window and is at least as large as the largest window. Otherwise, the next request tries
//!   again.
//! - If a page that a decision has covered is missing at its lookup, it was reclaimed before the reader
//!   used it (thrashing). The page is read alone. The next ahead window does not grow: it is two pages
//!   smaller than the current window, but has at least [`MIN_PAGES`](windows::MIN_PAGES). No window is
//!   opened to read other reclaimed pages again.
//! - If readahead finds [`CACHED_PAGES`](windows::CACHED_PAGES) resident pages in a row, readahead is
//!   switched off for the open file until a page is missing.
//! - If random reads are advised, the largest window has 0 pages, so each page is read alone.
//!
//! Deliberate differences:
//! - Resident pages of a window are counted when the caller calls [`Policy::window_read`], and not
//!   during the decision. The exception is a window that switches readahead off if all of its pages are
//!   resident. The policy checks the pages of such a window during the decision, because in 2.6.20 no
//!   second window follows it.
//! - In 2.6.20, a reader worked on a copy of the open file's state and wrote the copy back at the end
//!   of its request. Here, all readers of an open file use the same state, unless the caller honours
//!   [`Policy::copies_state`].
//! - If the read-around of a fault reads a page, the count of resident pages in a row restarts at 0.
//!
//! Invariants:
//! 1. An ahead window begins where the current window ends.
//! 2. While readahead is switched off, there are no windows.
//!
//! Cost: the policy decides once for each request. If a request is larger than the largest window, the
//! policy decides once for each part of that size. A request within the windows costs some comparisons
//! on 48 bytes of state. While readahead is switched off, the policy decides about each page.
//!
//! Tests: the tables in `tests/policies/legacy.rs`, the properties in
//! `tests/policies/properties.rs`.

pub(crate) mod windows;

use crate::read_around::LOTS_OF_MISSES;
use crate::{FileState, Policy, PolicyName, Read, Residency, Trigger, Window, Windows};
use windows::Decision;

/// Readahead of Linux 2.6.20.
#[derive(Clone, Copy, Debug, Default)]
pub struct Legacy;

impl Policy for Legacy {
    fn name(&self) -> PolicyName {
        PolicyName::Legacy
    }

    fn can_use_hits(&self, _by_fault: bool) -> bool {
        true
    }

    fn wants_access(&self, state: &FileState, read: &Read) -> bool {
        read.by_fault || read.index == read.request_start || read.index == state.legacy.next_page()
    }

    fn copies_state(&self) -> bool {
        true
    }

    fn decide(&self, state: &mut FileState, read: &Read, resident: &dyn Residency) -> Windows {
        let max_pages = state.max_pages_unless_random();
        if read.by_fault {
            return state
                .read_around
                .decide(read, max_pages, LOTS_OF_MISSES, resident);
        }
        match read.trigger {
            Trigger::Access => Decision {
                state: &mut state.legacy,
                read,
                resident,
                max_pages,
                windows: Windows::NONE,
            }
            .access(),
            Trigger::Miss => {
                state.legacy.miss();
                Window::alone(read.index).clip(read.file_pages).into()
            }
            Trigger::Marker => Windows::NONE,
        }
    }

    fn window_read(&self, state: &mut FileState, window: Window, new_pages: u32) {
        state.legacy.window_read(window, new_pages);
    }
}
