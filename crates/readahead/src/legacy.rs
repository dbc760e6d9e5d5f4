//! Readahead of Linux 2.6.20, the last design before on-demand readahead.
//!
//! Model: two consecutive windows. The reader is in the current window while the ahead window is
//! being read. When the reader reaches the ahead window, that becomes the current one and the next
//! ahead window is opened.
//!
//! ```text
//!        current window                 ahead window
//!   |<------- size ------->|<----------- ahead size ------------>|
//! --+----------------------+-------------------------------------+---> page index
//!   ^            ^         ^                                     ^
//! start      previous   ahead start: a read that gets here     the next ahead
//!              page     makes this the current window          window starts here
//! ```
//!
//! The policy is consulted before the lookup of a request's first page, and of the page after all
//! that it has accounted for so far. A request that is larger than the largest window is handled in
//! parts.
//!
//! | what was seen | windows |
//! |---|---|
//! | the last page again | that page is left out; nothing if there are no others |
//! | a page other than the one after the last | both windows are dropped; the request as it is |
//! | the page after the last, and no current window | a current window of the initial size; if the request is as large as the largest window, the ahead window too |
//! | the page after the last, and no ahead window | the ahead window, a step up the ramp |
//! | a request that reaches the ahead window | that becomes the current one, and the next ahead window is opened |
//!
//! - No page carries a marker: [`Window::async_size`] is 0 in every window, even if no reader waits
//!   for its pages, and [`Trigger::Marker`] gets no answer.
//! - If the device is congested, an ahead window is not opened unless the request reaches it. The
//!   next request tries again.
//! - If a page that was accounted for is missing when it is looked up, it was reclaimed before it
//!   was read (thrashing). It is read alone. The next ahead window is two pages smaller than the
//!   last one instead of larger, but at least [`MIN_PAGES`](windows::MIN_PAGES). The windows do
//!   not go back for the lost pages.
//! - When readahead has found [`CACHED_PAGES`](windows::CACHED_PAGES) pages in a row to be resident
//!   already, it is switched off for the file, until a page is missing.
//! - Advice of random reads makes the largest window 0 pages: each page is read alone.
//!
//! Deliberate differences:
//! - Pages that readahead found resident are counted when the caller reports them, not within the
//!   call. The exception is a window that would switch readahead off if all of it is resident: the
//!   policy itself looks it up in the page cache, since in 2.6.20 no second window follows it.
//! - In 2.6.20 each of two readers of one open file worked on a copy of its state and wrote it back
//!   at the end of its request. Here they share it at every page, unless the caller honours
//!   [`Policy::copies_state`].
//! - A read-around of a fault that read anything resets the count of pages found resident.
//!
//! Invariants:
//! 1. An ahead window begins where the current one ends.
//! 2. While readahead is switched off, there are no windows.
//!
//! Cost: one call for each request, or for each part of the largest window's size. A hit within the
//! windows costs some comparisons of 48 bytes of state. While readahead is switched off, there is
//! one call for each page.
//!
//! Tests: the tables in `tests/policies/legacy.rs`, the properties in
//! `tests/policies/properties.rs`.

pub(crate) mod windows;

use crate::{FileState, Policy, PolicyName, Read, Residency, Trigger, Window, Windows};
use windows::Decision;

/// Readahead of Linux 2.6.20.
#[derive(Clone, Copy, Debug, Default)]
pub struct Legacy;

impl Policy for Legacy {
    fn name(&self) -> PolicyName {
        PolicyName::Legacy
    }

    fn wants_every_page(&self, _by_fault: bool) -> bool {
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
            return state.read_around.decide(read, max_pages, resident);
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
