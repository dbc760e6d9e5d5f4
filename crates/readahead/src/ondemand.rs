//! On-demand readahead by Fengguang Wu, as introduced in Linux 2.6.23 in 2007.
//!
//! Model: there is one window for each open file, and a marker inside the window takes the place of a second
//! window. The policy is consulted only on demand: for a missing page, and for a page that carries the marker.
//! Faults are the exception: the policy is also consulted about each resident page that a fault accesses, so
//! that it can count the hits.
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
//! The patch defines three parameters of a window: where the next readahead begins, how much to read ahead,
//! and when to do the next readahead. In [`Window`], these are [`end`](Window::end), [`size`](Window::size)
//! and [`async_size`](Window::async_size). The lookahead is the asynchronous part of a window.
//!
//! | case | the policy is consulted about | window |
//! |---|---|---|
//! | sequential-next | the lookahead index or the readahead index of the last window, except page 0 | starts after the last window, has the next larger size, and is all lookahead |
//! | random | any other missing page that is not sequential, if the rest of the request is not larger than the largest window | the rest of the request, without a marker; the last window is not changed |
//! | sequential-first | any other missing page | starts at the page and has the initial size; the pages after the request are lookahead, or the whole window if the request fills it |
//! | lookahead-clueless | any other marked page, for example one of another stream, or page 0 | starts at the next page and has four times the initial size, at most the size of the largest window; as many pages are lookahead as in sequential-first |
//!
//! The rest of the request starts at the page about which the policy is consulted. The initial size depends on
//! this rest.
//!
//! A page is sequential if it is the last page of the last read, or the page after it. Before the first read,
//! only page 0 is sequential: the stored last page is then `u64::MAX`, and the comparison wraps.
//!
//! Pages of a window can be reclaimed before the reader uses them (thrashing). The case of the next miss depends
//! on the missing page:
//!
//! - The first page of a request: sequential-first. The pages from there on are read again in large reads.
//! - A later page of a request: usually *random*, because the page does not follow the last page of the
//!   previous request. The next request is sequential-first.
//! - The page that had the marker: sequential-next. The new window starts after the last window, so the page
//!   itself is read alone. The rest of its request is *random*, and the next request is sequential-first.
//!
//! For a fault that misses its page, the policy [reads around](crate#faults) the page.
//!
//! Deliberate choices:
//! - The case lookahead-clueless works as in the 2007 patch. Since 2.6.24, Linux searches the page cache for
//!   the first missing page after the marked page, and starts the window there. [`Modern`](crate::Modern) does
//!   the same.
//! - As in the 2007 patch, a marked page 0 is lookahead-clueless, never sequential-next: the next window starts
//!   at page 1. Page 0 is marked if the first request fills its window. The next window then contains the other
//!   pages of the first window again. The marker of the next window would be on page 1. Since page 1 was already
//!   inserted, no page is marked, and the stream has one more miss.
//! - As in Linux, the returned window is clipped to the end of the file, but the stored window is not.
//! - On a congested device, a marked page opens no window, because no reader waits for the pages of such a
//!   window. A missing page opens its window as usual.
//! - If random reads are advised, the largest window has 0 pages. The policy then returns no window, except for
//!   a fault that misses its page: that page alone.
//! - A fault on a marked page triggers the next window, as a read does. The caller has already removed the
//!   marker, so no later access would trigger it.
//!
//! Cost: a decision takes a few comparisons on 32 bytes of state. A hit without a marker does not consult the
//! policy, unless it is the hit of a fault.
//!
//! Tests: the table in `tests/policies/ondemand.rs`, the properties in `tests/policies/properties.rs`.

use crate::{FileState, Policy, PolicyName, Read, Residency, Trigger, Window, Windows};

/// On-demand readahead of 2007.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnDemand;

impl Policy for OnDemand {
    fn name(&self) -> PolicyName {
        PolicyName::OnDemand
    }

    fn can_use_hits(&self, by_fault: bool) -> bool {
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
                state.window = open(state, read, request);
                state.window
            }
        };
        window.clip(read.file_pages).into()
    }
}

/// Returns true if the page is the lookahead index or the readahead index of the window `last`, except page 0.
fn expects(last: Window, read: &Read) -> bool {
    read.index.0 != 0 && (Some(read.index) == last.marker() || read.index == last.end())
}

/// Returns the window of the case lookahead-clueless if the page is marked, otherwise that of sequential-first.
/// `request` is the number of pages in the rest of the request.
fn open(state: &FileState, read: &Read, request: u32) -> Window {
    let max_pages = state.max_pages();
    let size = state.initial_size(request, max_pages);
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
