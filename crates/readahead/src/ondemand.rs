//! On-demand readahead by Fengguang Wu, as introduced in Linux 2.6.23 in 2007.
//!
//! Model: each open file has one window. Unlike [`Legacy`](crate::Legacy), this policy has no ahead window. Instead, one
//! page of the window carries a marker, and an access to this page requests the next window in advance. The policy is
//! consulted only on demand: for a missing page, and for a page that carries the marker.
//! Faults are the exception: the policy is consulted about every page that a fault accesses, even if the page is
//! present, because it counts the faults that find their page in the cache.
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
//! Wu's patch of 2007 defines three parameters of a window: where the next readahead begins, how much to read ahead,
//! and when to do the next readahead. In [`Window`], these are [`end`](Window::end), [`size`](Window::size)
//! and [`async_size`](Window::async_size). The lookahead is the asynchronous part of a window.
//!
//! A page is *sequential* if it is the last page of the last read, or the page after it. Before the first read,
//! only page 0 is sequential: the stored last page is then `u64::MAX`, and the comparison wraps. The *rest of the
//! request* starts at the page about which the policy is consulted. The *initial size* of a window depends on the number of
//! pages in the rest of the request.
//!
//! | case | the policy is consulted about | window |
//! |---|---|---|
//! | sequential-next | the lookahead index or the readahead index of the last window, except page 0 | starts after the last window, has the next larger size, and is all lookahead |
//! | random | any other missing page that is not sequential, if the rest of the request fits into the largest window | the rest of the request, without a marker; the last window is not changed |
//! | sequential-first | any other missing page (such a page is sequential, or the rest of its request does not fit into the largest window) | starts at the page and has the initial size; its lookahead is the pages after the request; if there are none, the whole window is lookahead, so that it has a marker |
//! | lookahead-clueless | any other marked page; examples are page 0 and a page of another stream | let I be the initial size, M the largest size, and R the number of pages in the rest of the request. The window starts at the next page and has min(4I, M) pages. If R < I, its last I - R pages are lookahead; otherwise, its last I pages are |
//!
//! If memory is short, the page cache can evict pages of a window before the reader uses them (thrashing). The
//! reader then misses such a page. Its position determines the case:
//!
//! - The first page of a request, unless it had the marker: sequential-first. The pages from there on are read
//!   again in large reads.
//! - A later page of a request: usually *random*, because the page does not follow the last page of the
//!   previous request. The next request is sequential-first.
//! - The page that had the marker: sequential-next. The new window starts after the last window, so it does not
//!   contain this page. The reader usually reads the page alone. Further missing pages of the same request are
//!   usually *random*, and the next request is sequential-first.
//!
//! For a fault that misses its page, the policy [reads around](crate#faults) the page.
//!
//! Deliberate choices:
//! - The case lookahead-clueless works as in the 2007 patch. Since 2.6.24, Linux searches the page cache for
//!   the first missing page after the marked page, and starts the window there. [`Modern`](crate::Modern) does
//!   the same.
//! - As in the 2007 patch, a marked page 0 is lookahead-clueless, never sequential-next. This costs one more miss if the
//!   first request starts at page 0 and has at least M pages, where M is the largest size and more than 1:
//!   1. The miss of page 0 opens a window of pages 0 to M-1. All of it is lookahead, so page 0 is marked.
//!   2. The marker on page 0 opens a window of pages 1 to M. Pages 1 to M-1 are already in the cache, so this window adds
//!      only page M. The marker of this window belongs on page 1, but a window marks only pages that it adds. So no
//!      page is marked.
//!   3. The next window opens only when the reader misses page M+1.
//! - As in Linux, the returned window is clipped to the end of the file, but the stored window is not.
//! - On a congested device, a marked page opens no window, because no reader waits for the pages of such a
//!   window. A missing page opens its window as usual.
//! - If random reads are advised, the policy returns no window, with one exception: for a fault that misses its
//!   page, it returns a window of this page alone.
//! - A fault on a marked page triggers the next window, as a read does. Otherwise no later access would trigger
//!   that window, because the caller has already removed the marker.
//!
//! Cost: a decision about a read takes a few comparisons, and does not search the page cache. For a hit without a
//! marker, the policy is consulted only if the access is a fault.
//!
//! Tests: the table in `tests/policies/ondemand.rs`, the properties in `tests/policies/properties.rs`.

use crate::read_around::LOTS_OF_MISSES;
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
            return state
                .read_around
                .decide(read, max_pages, LOTS_OF_MISSES, resident);
        }
        let at_marker = match read.trigger {
            Trigger::Access => return Windows::NONE,
            Trigger::Miss => false,
            Trigger::Marker => true,
        };
        if state.max_pages_unless_random() == 0 || (at_marker && read.congested) {
            return Windows::NONE;
        }
        let window = if continues_window(state.window, read) {
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

/// Returns true if the page continues the window `last`: it is the lookahead index or the readahead index of this
/// window, and is not page 0.
fn continues_window(last: Window, read: &Read) -> bool {
    read.index.0 != 0 && (Some(read.index) == last.marker() || read.index == last.end())
}

/// Returns the window of the case lookahead-clueless if the page is marked, and otherwise the window of
/// sequential-first.
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
