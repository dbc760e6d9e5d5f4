//! Readahead of Linux 2.6.20, the last before on-demand readahead replaced it.
//!
//! Model: two windows behind one another. The reader is in the current one while the ahead one is
//! being read; when it arrives there, that becomes the current one and the next is opened.
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
//! The policy is asked before the lookup of a request's first page, and of the page behind all
//! that it has accounted for so far: a request of more than the largest window comes in parts.
//!
//! | what was seen | windows |
//! |---|---|
//! | the last page again | that page is left out; nothing if it is all |
//! | another page than the one behind the last | both windows are forgotten; the request as it is |
//! | the page behind the last, and no current window | a current window of the initial size; if the request is as large as a window may be, the ahead window too |
//! | the page behind the last, and no ahead window | the ahead window, a step up the ramp |
//! | a request that reaches the ahead window | that becomes the current one, and the next ahead window is opened |
//!
//! - Nothing carries a marker: [`Window::async_size`] is 0 in every window, also where nobody
//!   waits for its pages, and [`Trigger::Marker`] gets no answer.
//! - An ahead window that no page of the request lies in gives way to congestion, and is tried
//!   again by the next request.
//! - A page that is missing when it is looked up, though accounted for, was reclaimed before it
//!   was read (thrashing). It is read alone, and the next ahead window is two pages smaller
//!   than the last one instead of larger, but not below [`LEAST_PAGES`](windows::LEAST_PAGES). The
//!   windows do not turn back for the pages lost.
//! - Once readahead has found [`CACHED_PAGES`](windows::CACHED_PAGES) pages in a row to be there
//!   already, it is switched off for the file, until a page is missing.
//! - Advice of random reads makes the largest window 0 pages: each page is read alone.
//!
//! Deliberate differences:
//! - What a readahead found is counted when the caller reports it, not within the call. Only a
//!   window that would switch readahead off, if all of it is there, is looked up in the page cache
//!   by the policy itself, since in 2.6.20 no second window follows it.
//! - In 2.6.20 each of two readers of one open file worked on a copy of its state and wrote it
//!   back at the end of its request. Here they share it at every page, unless the caller heeds
//!   [`Policy::copies_state`].
//! - A read-around of a fault that read anything resets the count of pages found there.
//!
//! Invariants:
//! 1. An ahead window begins where the current one ends.
//! 2. While readahead is switched off, there are no windows.
//!
//! Cost: one call for each request, or for each part of the largest window's size; a hit within
//! the windows costs some comparisons of 48 bytes of state. While switched off, one call a page.
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
