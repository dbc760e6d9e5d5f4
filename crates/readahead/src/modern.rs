//! Readahead as in Linux 6.18.

use crate::{Advice, FileState, Policy, PolicyName, Read, Residency, Trigger, Window, Windows};
use crate::{PageIndex, folio, sizes};

/// Readahead of today's Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modern;

/// What only this policy remembers of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The largest request that the device takes; 0 for the largest window.
    pub(crate) io_pages: u32,
    /// Faults that missed, less those that hit, down to 0.
    mmap_miss: u16,
    /// The advice on faults.
    mapping: Advice,
    /// How large the folios of the stream have grown.
    pub(crate) growth: folio::Growth,
    /// The last decision was a stream's window, which is read in folios of that size.
    pub(crate) in_folios: bool,
}

/// Read-around stops while more faults than this have missed.
const MANY_MISSES: u16 = 100;

/// No more misses than this are counted.
const MOST_MISSES: u16 = 10 * MANY_MISSES;

impl FileState {
    /// Takes advice on faults of a mapping of the file.
    pub fn advise_mapping(&mut self, advice: Advice) {
        match advice {
            Advice::Normal | Advice::Sequential | Advice::Random => self.modern.mapping = advice,
            Advice::WillNeed | Advice::DontNeed => {}
        }
    }

    /// Sets the largest request that the device takes at once, in pages. A request that is larger
    /// than the largest window gets a window up to this. 0, the default, means that the device
    /// takes no more than the largest window.
    pub fn set_io_pages(&mut self, io_pages: u32) {
        self.modern.io_pages = io_pages.min(crate::MAX_PAGES_LIMIT);
    }

    /// The largest request that the device takes at once, in pages.
    pub(crate) fn io_pages(&self) -> u32 {
        match self.modern.io_pages {
            0 => self.max_pages(),
            pages => pages,
        }
    }
}

impl Policy for Modern {
    fn name(&self) -> PolicyName {
        PolicyName::Modern
    }

    fn wants_every_page(&self, by_fault: bool) -> bool {
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

/// The largest window for a request of `request_pages`.
fn limit(state: &FileState, request_pages: u32) -> u32 {
    state.max_pages().max(request_pages.min(state.io_pages()))
}

/// The page in which the last read ended, or before which, if it ended with a page.
fn previous_position(state: &FileState) -> u64 {
    let behind = u64::from(!state.previous_ends_inside);
    state.previous.0.saturating_add(behind)
}

fn synchronous(
    state: &mut FileState,
    read: &Read,
    request_pages: u32,
    resident: &dyn Residency,
) -> Window {
    let as_asked = |size| Window {
        start: read.index,
        size,
        async_size: 0,
    };
    if state.max_pages() == 0 {
        return as_asked(1);
    }
    if state.advice == Advice::Random {
        return as_asked(request_pages.min(state.max_pages().max(state.io_pages())));
    }
    let max_pages = limit(state, request_pages);
    let sequential = read.index.0.wrapping_sub(previous_position(state)) <= 1;
    if read.index.0 == 0 || request_pages > max_pages || sequential {
        let size = sizes::initial(request_pages, max_pages);
        let async_size = match size.checked_sub(request_pages) {
            Some(rest @ 1..) => rest,
            _ => size / 2,
        };
        return begin(state, read.index, size, async_size);
    }
    let history = resident.resident_before(read.index, max_pages.saturating_sub(1));
    if history <= request_pages {
        return as_asked(request_pages);
    }
    let from_start = u64::from(history) == read.index.0;
    let history = history.saturating_mul(if from_start { 2 } else { 1 });
    let size = history.saturating_add(request_pages).min(max_pages);
    begin(state, read.index, size, 1)
}

fn asynchronous(state: &mut FileState, read: &Read, resident: &dyn Residency) -> Option<Window> {
    if state.max_pages() == 0 || read.congested {
        return None;
    }
    let folio = resident.folio(read.index);
    // A read asks as from the first page of the folio, a fault as from its own.
    let (index, request_pages) = if read.by_fault {
        (read.index, state.max_pages())
    } else {
        let before = u32::try_from(read.index.0 - folio.start.0).unwrap_or(0);
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
        let ahead = u32::try_from(hole.0 - index.0).unwrap_or(max_pages);
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

/// The first page of the asynchronous part; the page behind the window if there is none.
fn first_ahead(window: Window) -> PageIndex {
    window.start.plus((window.size - window.async_size).into())
}

/// The first window of a stream.
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

fn fault(state: &mut FileState, read: &Read, resident: &dyn Residency) -> Option<Window> {
    let max_pages = state.max_pages();
    if max_pages == 0 || state.modern.mapping == Advice::Random {
        return None;
    }
    if state.modern.mapping == Advice::Sequential {
        return Some(synchronous(state, read, max_pages, resident));
    }
    state.modern.mmap_miss = (state.modern.mmap_miss + 1).min(MOST_MISSES);
    if state.modern.mmap_miss > MANY_MISSES {
        return None;
    }
    let start = read.index.0.saturating_sub(u64::from(max_pages / 2));
    Some(begin(state, PageIndex(start), max_pages, max_pages / 4))
}

/// What of the window lies within the file, in folios or in single pages.
fn clip(state: &FileState, window: Window, file_pages: u64) -> Option<Window> {
    if state.modern.in_folios && state.modern.growth.has_large() {
        window.clip(file_pages)
    } else {
        clip_single_pages(window, file_pages)
    }
}

/// What of a window of single pages lies within the file. The asynchronous part keeps its size, so
/// that the marker moves back; if that is more than what is left, there is none.
pub(crate) fn clip_single_pages(window: Window, file_pages: u64) -> Option<Window> {
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
