//! On-demand readahead as introduced in Linux 2.6.23 in 2007 (Fengguang Wu).
//!
//! Model: one window, and a marker inside it instead of a second one. The policy is consulted on demand only:
//! for a missing page, and for a page that carries the marker.
//!
//! ```text
//!     |<------------------ readahead size ----------------->|
//!     |                          |<---- lookahead size ---->|
//!   --+--------------------------+--------------------------+---> page index
//!     ^                          ^                          ^
//!   start                 lookahead index: this       readahead index: the
//!                         page has the marker         next window starts here
//! ```
//!
//! The three parameters of a window, as the patch defines them, are those of [`Window`]: where the next
//! readahead begins ([`end`](Window::end)), how much to read ahead ([`size`](Window::size)), and when to do
//! the next readahead ([`async_size`](Window::async_size)).
//!
//! | case | what was seen | window |
//! |---|---|---|
//! | sequential-next | the lookahead index or the readahead index of the last window, not page 0 | after the last one, a step up the ramp, all of it lookahead |
//! | random | a miss away from the last read, of at most the largest window | the request as it is, no marker; the stream's window is left unchanged |
//! | sequential-first | a miss at the start of a new file or next to the last read, or an oversize request | from the page, of the initial size; lookahead is what exceeds the request, or all of it if nothing does |
//! | lookahead-clueless | a marker that does not belong to the last window: streams interleave on one file | from the next page, four times the initial size; lookahead as in sequential-first |
//!
//! A read is sequential if its page is the last one read or the one after it, in unsigned arithmetic. Before
//! the first read, page 0 is next. A window whose pages were reclaimed before they were read (thrashing)
//! needs no case: the next miss is sequential-first and opens a window there, so the pages are read again in
//! large reads. If the page with the marker is among those lost, the miss on it is sequential-next: that page
//! is read alone, and the others are read again from the next request on. Faults are [read
//! around](crate#faults).
//!
//! Deliberate choices:
//! - Lookahead-clueless is that of the 2007 patch. From 2.6.24 Linux instead finds the first hole after the
//!   marker and starts there, which requires a scan of the page cache. [`Modern`](crate::Modern) does this.
//! - A marker on page 0 is never sequential-next, as in the original. Therefore, if the first request of a
//!   file fills its window, the stream has one more miss, and all pages of that window except the first are
//!   requested again.
//! - The answer is clipped to the end of the file, and the remembered window is not, as in Linux.
//! - A congested device defers only what a marker requests, because a reader waits for a miss.
//! - Advice of random reads makes the largest window 0 pages, and the policy then returns no window.
//! - A fault that meets the marker triggers the next window as a read does: the caller has removed the
//!   marker, so no other reader would.
//!
//! Cost: a decision is a few comparisons on 32 bytes of state. A hit without a marker costs nothing, since
//! the policy is not consulted.
//!
//! Tests: the table in `tests/policies/ondemand.rs`, the properties in `tests/policies/properties.rs`.

use crate::{FileState, Policy, PolicyName, Read, Residency, Trigger, Window, Windows, sizes};

/// On-demand readahead of 2007.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnDemand;

impl Policy for OnDemand {
    fn name(&self) -> PolicyName {
        PolicyName::OnDemand
    }

    fn wants_every_page(&self, by_fault: bool) -> bool {
        by_fault
    }

    fn wants_access(&self, _: &FileState, read: &Read) -> bool {
        read.by_fault
    }

    fn copies_state(&self) -> bool {
        true
    }

    fn decide(&self, state: &mut FileState, read: &Read, resident: &dyn Residency) -> Windows {
        if read.by_fault && read.trigger != Trigger::Marker {
            let max_pages = state.max_pages_unless_random();
            return state.read_around.decide(read, max_pages, resident);
        }
        let at_marker = match read.trigger {
            Trigger::Access => return Windows::NONE,
            Trigger::Miss => false,
            Trigger::Marker => true,
        };
        if state.max_pages_unless_random() == 0 || (at_marker && read.congested) {
            return Windows::NONE;
        }
        let window = if expects(state.window, read) {
            state.push_forward()
        } else {
            let request = read.rest_pages();
            let oversize = request > state.max_pages();
            if !at_marker && !oversize && !state.is_sequential(read.index) {
                read.as_requested()
            } else {
                state.window = open(read, request, state.max_pages());
                state.window
            }
        };
        window.clip(read.file_pages).into()
    }
}

/// Returns true if the page is the one that the stream of `last` reads next.
fn expects(last: Window, read: &Read) -> bool {
    read.index.0 != 0 && (Some(read.index) == last.marker() || read.index == last.end())
}

/// Returns the first window of a stream: sequential-first, or lookahead-clueless at a marker.
fn open(read: &Read, request: u32, max_pages: u32) -> Window {
    let size = sizes::initial(request, max_pages);
    let async_size = if size > request { size - request } else { size };
    if read.trigger == Trigger::Marker {
        let start = read.index.plus(1);
        Window {
            start,
            size: size.saturating_mul(4).min(max_pages),
            async_size,
        }
    } else {
        Window {
            start: read.index,
            size,
            async_size,
        }
    }
}
