//! Readahead that adapts to the streams of a file, to the memory and to the device.
//!
//! Model: none in Linux. The policy combines published designs, which `docs/design/readahead.md` names:
//!
//! ```text
//!   read ──> streams (a table for each file) ──> the stream's degree and trigger distance ──> windows
//!                │                                          │
//!                └── recent (requests that belong to        └── balance (one for each device and cache):
//!                    no stream, and their patterns)             delay and rate, share of memory, waste
//! ```
//!
//! | consulted about | condition | windows |
//! |---|---|---|
//! | a page that a read misses | it is the next page of a stream | the request, and the next window of the stream |
//! | | it was read ahead for a stream, and evicted | the same, with half the degree |
//! | | it is the first page of the file, or follows the last read, or forms a pattern with recent requests | the request, and the first window of a new stream |
//! | | none of these | the request; the next request of this size, too, if random requests of this file are often continued and the device has a long delay |
//! | a marked page | it is the marker of a stream | the next window of the stream |
//! | | otherwise, unless streams rarely continue | the first window of a new stream, from the first missing page on |
//! | a page that a fault misses | as in the first three rows, but a fault does not follow the last read | the same |
//! | | none of these | read-around, unless the misses of faults exceed the hits by more than 16 |
//!
//! A stream is forward, backward or strided (`stream.rs`). Its windows have no fixed limit: they grow until the
//! device is busy (`balance.rs`). If [`FileState::max_pages`](crate::FileState::max_pages) is 0, readahead is
//! disabled. Other values limit the windows of streams only if the file shares no [`Balance`]. Long windows are
//! divided into a [series](crate::Series), because some devices serve several requests faster than a large one.
//!
//! - If random reads are advised, only the request is read. If sequential reads are advised, each read that belongs to
//!   no stream starts one.
//! - If the device is congested, a marked page starts no window. The stream continues at its next miss.
//!
//! Cost: a hit without a marker costs nothing, unless the access is a fault. Other decisions search the table of the
//! file's streams, which has at most 256 entries.
//!
//! Tests: the tables in `tests/policies/adaptive.rs`, the properties in `tests/policies/properties.rs`, the cells in
//! `docs/design/readahead-cells.md`.

mod balance;
mod recent;
mod stream;
mod streams;

pub use balance::{Balance, Ticket};
pub(crate) use streams::FileStreams;

use crate::{
    Advice, FileState, MAX_PAGES_LIMIT, PageIndex, Policy, PolicyName, Read, Residency, Trigger,
    Window, Windows,
};
use stream::Missing;

/// Readahead that adapts to streams, memory and device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adaptive;

/// Read-around of faults stops when the misses exceed the hits by more than this number.
const LOTS_OF_MISSES: u32 = 16;

impl Policy for Adaptive {
    fn name(&self) -> PolicyName {
        PolicyName::Adaptive
    }

    fn can_use_hits(&self, by_fault: bool) -> bool {
        by_fault
    }

    fn wants_access(&self, _: &FileState, read: &Read) -> bool {
        read.by_fault
    }

    fn observes_waits(&self) -> bool {
        true
    }

    fn page_in_flight(&self, state: &mut FileState, index: PageIndex) {
        if let Some(streams) = &mut state.adaptive {
            streams.wait(index.0);
        }
    }

    fn window_read(&self, state: &mut FileState, window: Window, new_pages: u32) {
        if new_pages < window.size
            && let Some(streams) = &mut state.adaptive
        {
            streams.record_short(window, new_pages);
        }
    }

    fn decide(&self, state: &mut FileState, read: &Read, resident: &dyn Residency) -> Windows {
        let max_pages = state.max_pages_unless_random();
        if max_pages == 0 {
            let is_missing = read.trigger == Trigger::Miss;
            let window = is_missing.then(|| read.as_requested());
            return window
                .and_then(|window| window.clip(read.file_pages))
                .into();
        }
        if read.trigger == Trigger::Access {
            return state
                .read_around
                .decide(read, max_pages, LOTS_OF_MISSES, resident);
        }
        let is_sequential = !read.by_fault
            && (state.is_sequential(read.request_start) || state.advice == Advice::Sequential);
        let streams = state
            .adaptive
            .get_or_insert_with(|| Box::new(FileStreams::unshared()));
        let most = if streams.balance().keeps_max_pages {
            max_pages
        } else {
            MAX_PAGES_LIMIT
        };
        let missing = Missing::of(read, most);
        if missing.start >= missing.end {
            return Windows::NONE;
        }
        if read.trigger == Trigger::Marker {
            if read.congested {
                streams.forget_marker(missing.start);
                return Windows::NONE;
            }
            return streams.marked(&missing, resident);
        }
        if let Some(windows) = streams.miss(read, &missing, is_sequential) {
            return windows;
        }
        if read.by_fault {
            let windows = state
                .read_around
                .decide(read, max_pages, LOTS_OF_MISSES, resident);
            streams.read_around(windows.first());
            return windows;
        }
        streams.random(read, &missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Nothing;

    impl Residency for Nothing {
        fn is_resident(&self, _: PageIndex) -> bool {
            false
        }
    }

    fn read(trigger: Trigger, start: u64, pages: u32) -> Read {
        Read {
            trigger,
            index: PageIndex(start),
            request_start: PageIndex(start),
            request_pages: pages,
            ends_inside_page: false,
            by_fault: false,
            file_pages: 1 << 40,
            congested: false,
        }
    }

    #[test]
    fn tables_of_a_file_are_bounded_with_ten_thousand_streams() {
        let mut state = FileState::new(32);
        state.share(&Arc::new(Balance::new(1 << 18)));
        for round in 0..4 {
            for stream in 0..10_000_u64 {
                let start = (stream << 24) + round * 4;
                Adaptive.decide(&mut state, &read(Trigger::Miss, start, 4), &Nothing);
            }
        }
        let bytes = state.adaptive.as_ref().unwrap().memory_bytes();
        assert!(bytes <= 48 << 10, "{bytes} bytes");
    }

    /// 500 files are read at 20 places each, in turns.
    #[test]
    fn tables_of_all_files_are_bounded_with_ten_thousand_streams() {
        const FILES: u64 = 500;
        let balance = Arc::new(Balance::new(1 << 18));
        let open = || {
            let mut state = FileState::new(32);
            state.share(&balance);
            state
        };
        let mut files: Vec<FileState> = (0..FILES).map(|_| open()).collect();
        for round in 0..4 {
            for stream in 0..10_000 / FILES {
                for state in &mut files {
                    // At equal distances, the reads would form one strided stream.
                    let start = ((stream * stream) << 24) + round * 4;
                    Adaptive.decide(state, &read(Trigger::Miss, start, 4), &Nothing);
                }
            }
        }
        let tables = files.iter().filter_map(|state| state.adaptive.as_ref());
        let bytes: usize = tables.map(|tables| tables.memory_bytes()).sum();
        assert!(bytes <= 2 << 20, "{bytes} bytes");
        assert_eq!(balance.entries(), balance::MOST_ENTRIES);
        // A new file still has a stream.
        let mut new = open();
        Adaptive.decide(&mut new, &read(Trigger::Miss, 0, 4), &Nothing);
        let windows = Adaptive.decide(&mut new, &read(Trigger::Miss, 4, 4), &Nothing);
        let window = windows.first().unwrap();
        assert!(window.size > 4, "{window:?}");
        // Closed files return their entries; a copy has its own.
        let copy = files[0].clone();
        drop(files);
        assert!((1..=256).contains(&balance.entries()));
        drop((new, copy));
        assert_eq!(balance.entries(), 0);
    }
}
