//! Readahead as in Linux 6.18.
//!
//! Model: as in [`OnDemand`](crate::OnDemand), the policy is consulted about missing and marked pages,
//! and stores one window for each open file. A missing page is compared with the end of the last read. A
//! marked page is compared with the stored window. If they do not match, the policy searches the page cache
//! for resident pages that earlier reads have left. Therefore many streams can share one open file.
//!
//! ```text
//!   synchronous: a page is missing         asynchronous: a page carries the marker
//!
//!      request                              stored window        next window
//!     |<------>|                              |<---------->|<-- next larger size -->|
//!   --+--------+-----------+---> page index --+------------+------------------------+--->
//!     ^        ^           ^                  ^            ^                        ^
//!    miss    marker       end               marker     new marker         end, rounded down
//!     |<-- initial size -->|
//! ```
//!
//! In each group of rows, the first row whose condition holds applies:
//!
//! | consulted about | condition | window |
//! |---|---|---|
//! | a page that a read misses | it is the first page of the file, or the next page in sequence, or the page after that, or the request exceeds the limit | starts at the page and has the initial size; the part after the request is asynchronous; if the request fills the window, the second half is asynchronous |
//! | | the resident pages directly before it are more than the pages of the request | starts at the page; its size is the number of those resident pages plus the size of the request, at most the limit; if the resident pages begin at the start of the file, their number is first doubled; the last page is asynchronous |
//! | | none of these | exactly the request; the stored window is not changed |
//! | a marked page that a read finds | it is the first asynchronous page of the stored window | starts after the stored window; has the next larger size, and at least the size of the stored window; all asynchronous |
//! | | none of the pages after it, up to the limit, is missing | no window |
//! | | none of these | starts at the next missing page; has the next larger size, as if the last window had the size of the request plus the distance to that page; all asynchronous |
//! | a page that a fault misses | random reads are advised on the mapping | the page alone |
//! | | sequential reads are advised on the mapping | as if a read of the size of the largest window missed the page |
//! | | the misses of faults, including this one, exceed the hits by more than 100 | the page alone |
//! | | none of these | read-around: the largest window with the page in its middle, the last quarter asynchronous |
//! | a marked page that a fault finds | random reads are advised on the mapping | no window |
//! | | otherwise | as if a read of the size of the largest window found the page |
//!
//! The following rules complete the table:
//!
//! - "The request" is the part of a read that starts at the page about which the policy is consulted.
//! - The limit is normally the size of the largest window. If `io_pages` ([`FileState::set_io_pages`]) and
//!   the request are both larger than the largest window, the limit is the smaller of `io_pages` and the
//!   request.
//! - `sizes.rs` defines the initial size and the next larger size. Both depend on the limit.
//! - The end of a window that a marked page triggers is rounded down to a multiple of 4 pages, or of 2
//!   pages if the limit is not a multiple of 4. The end is not rounded if the limit is odd, or if the
//!   rounded window would be empty.
//! - The next page in sequence contains the byte after the last read. If the last read ended inside a page,
//!   it is that page. If the last read ended at the end of a page, it is the following page.
//! - A window that extends past the end of the file is shortened. Its asynchronous part keeps its size, so
//!   the marker moves to a lower page. If the asynchronous part is larger than the shortened window, no page
//!   is marked.
//! - If random reads are advised on the file, the rows for a page that a read misses do not apply. Instead,
//!   the request is read, up to the largest window or `io_pages`, whichever is more.
//! - If the largest window of a file has 0 pages, a missing page is read alone, and a marked page starts no
//!   window.
//!
//! The policy does not detect thrashing, backward reads or strided reads.
//!
//! Deliberate differences:
//! - After a fault has read its page, Linux repeats the fault. The repeated fault counts as a hit,
//!   unless the page was reclaimed from the cache earlier, and was part of the working set at that
//!   time. Therefore read-around hardly ever ends in Linux. Here, the caller chooses whether to report
//!   the repeated fault.
//! - A marker is always removed before the policy is consulted. Linux keeps the marker if the largest
//!   window has 0 pages, or if a fault finds the marker and random reads are advised on the mapping.
//! - If the device is congested, a marked page starts no window. Because its marker is already removed, the
//!   next window starts only when a page is missing. Linux 6.18 does not check the device. Instead, it
//!   checks whether the control group of the reader is congested. If so, Linux starts no window for a
//!   marked page, and it reads a missing page alone.
//!
//! Cost: a decision about the marked page of the stored window takes a few comparisons. A decision about
//! a missing page that does not continue the last read checks the pages before the missing page, at most as
//! many as the limit. A decision about another marked page checks the pages after the marked page, at most
//! as many as the limit. A hit without a marker costs nothing, with one exception: while the misses of
//! faults exceed the hits, the policy is consulted about each hit of a fault.
//!
//! Tunables: `max_pages` of [`FileState`] is the largest window. `io_pages` is the largest request of
//! the device, in pages; the default is `max_pages`. Linux uses `max_sectors_kb` of the device.
//!
//! Tests: `tests/kernel` compares the policy with recordings of a kernel, on several hundred patterns
//! of reads, faults and advice. `docs/design/readahead-oracle.md` describes the recordings.
//! `tests/policies` tests properties of all policies.

use crate::folio::LARGEST_ORDER;
use crate::{
    Advice, FileState, Folio, PageIndex, Policy, PolicyName, Read, Residency, Trigger, Window,
    Windows, sizes,
};

/// Readahead of current Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modern;

/// Read-around stops when the misses of faults exceed the hits by more than this number.
const LOTS_OF_MISSES: u16 = 100;

/// The upper limit of the count of misses minus hits.
const MAX_MISSES: u16 = 10 * LOTS_OF_MISSES;

impl Policy for Modern {
    fn name(&self) -> PolicyName {
        PolicyName::Modern
    }

    fn can_use_hits(&self, by_fault: bool) -> bool {
        by_fault
    }

    fn wants_access(&self, state: &FileState, read: &Read) -> bool {
        read.by_fault && state.modern.mmap_miss > 0
    }

    fn decide(&self, state: &mut FileState, read: &Read, resident: &dyn Residency) -> Windows {
        state.modern.in_folios = false;
        let window = match (read.trigger, read.by_fault) {
            (Trigger::Access, by_fault) => {
                if by_fault && resident.is_resident(read.index) {
                    state.modern.mmap_miss = state.modern.mmap_miss.saturating_sub(1);
                }
                None
            }
            (Trigger::Miss, false) => Some(synchronous(state, read, read.rest_pages(), resident)),
            (Trigger::Miss, true) => fault(state, read, resident),
            (Trigger::Marker, _) => asynchronous(state, read, resident),
        };
        window
            .and_then(|window| clip(state, window, read.file_pages))
            .into()
    }

    fn end_read(&self, state: &mut FileState, read: &Read) {
        if !read.by_fault {
            let last = read.last_page().0.min(read.file_pages.saturating_sub(1));
            state.set_previous(PageIndex(last), read.ends_inside_page);
        }
    }
}

/// Returns the limit: the size of the largest window for a request of `request_pages`.
fn limit(state: &FileState, request_pages: u32) -> u32 {
    state.max_pages().max(request_pages.min(state.io_pages()))
}

/// Returns the next page in sequence: the page that contains the next byte after the last read.
fn previous_position(state: &FileState) -> u64 {
    let next = u64::from(!state.previous_ends_inside);
    state.previous.0.saturating_add(next)
}

/// Returns the window for a missing page. The request consists of `request_pages` pages from that page on.
fn synchronous(
    state: &mut FileState,
    read: &Read,
    request_pages: u32,
    resident: &dyn Residency,
) -> Window {
    let as_requested = |size| Window::unmarked(read.index, size);
    if state.max_pages() == 0 {
        return as_requested(1);
    }
    if state.advice == Advice::Random {
        return as_requested(request_pages.min(state.max_pages().max(state.io_pages())));
    }
    let max_pages = limit(state, request_pages);
    let sequential = read.index.0.wrapping_sub(previous_position(state)) <= 1;
    if read.index.0 == 0 || request_pages > max_pages || sequential {
        let size = state.initial_size(request_pages, max_pages);
        let async_size = match size.checked_sub(request_pages) {
            Some(rest @ 1..) => rest,
            _ => size / 2,
        };
        return begin(state, read.index, size, async_size);
    }
    let history = resident.resident_before(read.index, max_pages.saturating_sub(1));
    if history <= request_pages {
        return as_requested(request_pages);
    }
    let from_start = u64::from(history) == read.index.0;
    let history = history.saturating_mul(if from_start { 2 } else { 1 });
    let size = history.saturating_add(request_pages).min(max_pages);
    begin(state, read.index, size, 1)
}

/// Returns the window for a page that carries the marker.
fn asynchronous(state: &mut FileState, read: &Read, resident: &dyn Residency) -> Option<Window> {
    if state.max_pages() == 0 || read.congested {
        return None;
    }
    if read.by_fault && state.modern.mapping == Advice::Random {
        return None;
    }
    let folio = resident.folio(read.index);
    // The request of a read begins at the first page of the folio. The request of a fault begins at the
    // faulted page.
    let (index, request_pages) = if read.by_fault {
        (read.index, state.max_pages())
    } else {
        let before = u32::try_from(read.index.0.saturating_sub(folio.start.0)).unwrap_or(0);
        (folio.start, read.rest_pages().saturating_add(before))
    };
    let max_pages = limit(state, request_pages);
    let last = state.window;
    let expected = last.size > 0 && folio.contains(first_ahead(last)) && index == folio.start;
    let (start, size) = if expected {
        let size = sizes::next(last.size, max_pages).max(last.size);
        (last.end(), size)
    } else {
        let hole = resident.next_hole(index.plus(1), max_pages)?;
        let ahead = u32::try_from(hole.0.saturating_sub(index.0)).unwrap_or(max_pages);
        let size = sizes::next(ahead.saturating_add(request_pages), max_pages);
        (hole, size)
    };
    let size = state.modern.growth.grow(start, size, max_pages);
    state.modern.in_folios = true;
    state.window = Window {
        start,
        size,
        async_size: size,
    };
    Some(state.window)
}

/// Returns the first page of the asynchronous part, or the page after the window if the window has no such
/// part.
fn first_ahead(window: Window) -> PageIndex {
    window.start.plus((window.size - window.async_size).into())
}

/// Stores and returns a window that a missing page opens: the first window of a stream, or a read-around
/// window.
fn begin(state: &mut FileState, start: PageIndex, size: u32, async_size: u32) -> Window {
    state.modern.growth.restart();
    state.modern.in_folios = true;
    state.window = Window {
        start,
        size,
        async_size,
    };
    state.window
}

/// Returns the window for a fault that misses its page. `None` means that the page is read alone.
fn fault(state: &mut FileState, read: &Read, resident: &dyn Residency) -> Option<Window> {
    let max_pages = state.max_pages();
    if max_pages == 0 || state.modern.mapping == Advice::Random {
        return None;
    }
    if state.modern.mapping == Advice::Sequential {
        return Some(synchronous(state, read, max_pages, resident));
    }
    state.modern.mmap_miss = (state.modern.mmap_miss + 1).min(MAX_MISSES);
    if state.modern.mmap_miss > LOTS_OF_MISSES {
        return None;
    }
    let start = read.index.0.saturating_sub(u64::from(max_pages / 2));
    Some(begin(state, PageIndex(start), max_pages, max_pages / 4))
}

/// Returns the part of the window that is inside the file, or `None` if no page of the window is. The marker
/// of a window that is read in large folios stays on its page. For other windows, see
/// [`clip_single_pages`].
fn clip(state: &FileState, window: Window, file_pages: u64) -> Option<Window> {
    if state.modern.in_folios && state.modern.growth.has_large() {
        window.clip(file_pages)
    } else {
        clip_single_pages(window, file_pages)
    }
}

/// Returns the part of a window of single pages that is inside the file. The asynchronous part keeps
/// its size, so the marker moves back. If the asynchronous part is larger than the clipped window, the
/// result has no marker.
fn clip_single_pages(window: Window, file_pages: u64) -> Option<Window> {
    let clipped = window.clip(file_pages)?;
    let async_size = match window.async_size {
        pages if pages <= clipped.size => pages,
        _ => 0,
    };
    Some(Window {
        async_size,
        ..clipped
    })
}

// These functions serve the replay of recordings of a kernel with large folios (`tests/kernel`): the test
// reads each window in the folios in which the kernel read it. Larder's page cache has only single pages.
#[doc(hidden)]
impl FileState {
    /// Sets the order of the largest folio that the page cache supports. The default is 0, which means
    /// single pages.
    pub fn set_largest_folio(&mut self, order: u8) {
        self.modern.growth.largest = order.min(LARGEST_ORDER);
    }

    /// Returns true if the last decision of [`Modern`] returned a window that it also stored. Such a window
    /// is read in large folios, if the page cache supports them. A window that is exactly the rest of the
    /// request is not stored, and never uses large folios.
    #[must_use]
    pub fn reads_in_folios(&self) -> bool {
        self.modern.in_folios
    }

    /// Returns the folios in which `window` is read. `window` must be the result of the last decision of
    /// [`Modern`].
    pub fn folios(&self, window: Window) -> impl Iterator<Item = Folio> + use<> {
        let most = if self.modern.in_folios {
            self.modern.growth.order
        } else {
            0
        };
        let end = window.end().0;
        let mut next = window.start.0;
        std::iter::from_fn(move || {
            let room = end.checked_sub(next)?.checked_ilog2()?;
            let order = room.min(next.trailing_zeros()).min(most.into());
            let folio = Folio {
                start: PageIndex(next),
                order: u8::try_from(order).ok()?,
            };
            next = folio.end().0;
            Some(folio)
        })
    }

    /// Returns the part of the stored window from `from` on, as a window of single pages. It is needed if a
    /// page in the range of a large folio is already cached, so that the folio cannot be used.
    #[must_use]
    pub fn rest_in_single_pages(&self, from: PageIndex, file_pages: u64) -> Option<Window> {
        let rest = self.window.end().0.saturating_sub(from.0);
        let window = Window {
            start: from,
            size: u32::try_from(rest).ok().filter(|size| *size > 0)?,
            async_size: self.window.async_size,
        };
        clip_single_pages(window, file_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Residency for Nothing {
        fn is_resident(&self, _: PageIndex) -> bool {
            false
        }
    }

    struct Everything;

    impl Residency for Everything {
        fn is_resident(&self, _: PageIndex) -> bool {
            true
        }
    }

    fn fault_on(state: &mut FileState, trigger: Trigger, resident: &dyn Residency) -> Windows {
        let read = Read {
            trigger,
            index: PageIndex(500),
            request_start: PageIndex(500),
            request_pages: 1,
            ends_inside_page: false,
            by_fault: true,
            file_pages: 1000,
            congested: false,
        };
        if trigger == Trigger::Access && !Modern.wants_access(state, &read) {
            return Windows::NONE;
        }
        Modern.decide(state, &read, resident)
    }

    #[test]
    fn read_around_ends_after_a_hundred_misses_and_begins_again_after_hits() {
        let mut state = FileState::new(32);
        let around = Window {
            start: PageIndex(484),
            size: 32,
            async_size: 8,
        };
        for _ in 0..100 {
            let windows = fault_on(&mut state, Trigger::Miss, &Nothing);
            assert_eq!(windows.first(), Some(around));
        }
        for _ in 0..2000 {
            assert!(fault_on(&mut state, Trigger::Miss, &Nothing).is_empty());
        }
        // The count of misses is at most 1000. After 900 hits it is 100, and the next miss makes it 101.
        for _ in 0..900 {
            assert!(fault_on(&mut state, Trigger::Access, &Everything).is_empty());
        }
        assert!(fault_on(&mut state, Trigger::Miss, &Nothing).is_empty());
        for _ in 0..2 {
            fault_on(&mut state, Trigger::Access, &Everything);
        }
        assert_eq!(
            fault_on(&mut state, Trigger::Miss, &Nothing).first(),
            Some(around)
        );
    }

    #[test]
    fn access_to_absent_page_is_not_counted_as_hit() {
        let mut state = FileState::new(32);
        for _ in 0..101 {
            fault_on(&mut state, Trigger::Access, &Nothing);
            fault_on(&mut state, Trigger::Miss, &Nothing);
        }
        assert!(fault_on(&mut state, Trigger::Miss, &Nothing).is_empty());
    }

    #[test]
    fn marked_page_on_congested_device_starts_no_window() {
        let mut state = FileState::new(32);
        let mut read = Read {
            trigger: Trigger::Miss,
            index: PageIndex(0),
            request_start: PageIndex(0),
            request_pages: 1,
            ends_inside_page: false,
            by_fault: false,
            file_pages: 1000,
            congested: true,
        };
        let window = Modern.decide(&mut state, &read, &Nothing).first();
        assert_eq!(window.map(|window| window.size), Some(4));
        read.trigger = Trigger::Marker;
        read.index = PageIndex(1);
        assert!(Modern.decide(&mut state, &read, &Nothing).is_empty());
    }
}
