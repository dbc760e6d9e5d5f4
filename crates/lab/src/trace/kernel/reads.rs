//! Derives reads of files from the kernel's events.
//!
//! # Model
//! `mm_filemap_get_pages` reports the rest of the requested range each time that read(2) has found some pages. A read of
//! many pages therefore causes several events with the same last page, of which the first becomes a row. If a page was
//! missing, `page_cache_sync_ra` was reported before. The duration of the read is then the time of the wait for this
//! page. The range is in whole pages, and may extend past the end of the file.

use super::tracepoint::Tracepoint;
use larder_trace::FileRead;
use std::collections::HashMap;

/// The largest range that is accepted, in pages. One call cannot read more.
const MAX_PAGES: u64 = 1 << 19;

/// The state of each thread that reads.
#[derive(Debug)]
pub(super) struct Reads {
    page_bytes: u64,
    threads: HashMap<u32, Thread>,
}

/// A file: a device and an inode number.
type File = (u32, u64);

/// The state of a thread.
#[derive(Debug, Default)]
struct Thread {
    /// The file, the first page and the last page of the last event of the last read.
    last: Option<(File, u64, u64)>,
    /// The file of which a page is missing, and the time at which this was found.
    missing: Option<(File, u64)>,
}

impl Reads {
    pub(super) fn new(page_bytes: u64) -> Self {
        Self {
            page_bytes,
            threads: HashMap::new(),
        }
    }

    /// Returns the read or page fault that the event of `thread` at `time_ns` shows. `pages` are the first and the last
    /// page of the event.
    pub(super) fn read(
        &mut self,
        time_ns: u64,
        thread: u32,
        tracepoint: Tracepoint,
        file: File,
        pages: (u64, u64),
    ) -> Option<FileRead> {
        let (first, last) = pages;
        let state = self.threads.entry(thread).or_default();
        let blank = FileRead {
            time_ns,
            device: file.0,
            inode: file.1,
            offset_bytes: first.saturating_mul(self.page_bytes),
            len_bytes: 0,
            file_bytes: 0,
            stream: 0,
            thread,
            duration_ns: 0,
            is_fault: false,
        };
        match tracepoint {
            Tracepoint::SyncReadahead => {
                state.missing.get_or_insert((file, time_ns));
                None
            }
            Tracepoint::Fault => Some(FileRead {
                len_bytes: u32::try_from(self.page_bytes).unwrap_or(u32::MAX),
                is_fault: true,
                ..blank
            }),
            Tracepoint::GetPages => {
                let missing = state.missing.take();
                let previous = state.last.replace((file, first, last));
                let continues =
                    previous.is_some_and(|(of, from, to)| of == file && to == last && first > from);
                if continues {
                    return None;
                }
                let count = last.checked_sub(first)?.min(MAX_PAGES) + 1;
                let bytes = count.saturating_mul(self.page_bytes);
                let waited = missing.filter(|(of, _)| *of == file);
                Some(FileRead {
                    len_bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                    duration_ns: waited.map_or(0, |(_, began)| time_ns.saturating_sub(began)),
                    ..blank
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: File = (7, 12);

    #[test]
    fn events_of_one_read_give_one_row_that_includes_the_wait() {
        let mut reads = Reads::new(4096);
        let mut read = |time, tracepoint, first, last| {
            let read = reads.read(time, 1, tracepoint, FILE, (first, last));
            read.map(|read| (read.offset_bytes, read.len_bytes, read.duration_ns))
        };
        assert_eq!(read(10, Tracepoint::SyncReadahead, 0, 0), None);
        assert_eq!(
            read(30, Tracepoint::GetPages, 0, 31),
            Some((0, 32 * 4096, 20))
        );
        assert_eq!(read(31, Tracepoint::GetPages, 15, 31), None);
        assert_eq!(read(32, Tracepoint::GetPages, 30, 31), None);
        // The next read, of cached pages.
        assert_eq!(
            read(40, Tracepoint::GetPages, 32, 32),
            Some((32 * 4096, 4096, 0))
        );
        // Small reads of one page.
        assert_eq!(
            read(41, Tracepoint::GetPages, 32, 32),
            Some((32 * 4096, 4096, 0))
        );
    }

    #[test]
    fn threads_and_files_do_not_continue_each_others_reads() {
        let mut reads = Reads::new(4096);
        let mut is_row = |thread, file, first| {
            let read = reads.read(0, thread, Tracepoint::GetPages, file, (first, 31));
            read.is_some()
        };
        assert!(is_row(1, FILE, 0));
        assert!(is_row(2, FILE, 15));
        assert!(is_row(1, (7, 13), 16));
        assert!(!is_row(2, FILE, 16));
    }

    #[test]
    fn fault_reads_one_page_and_reversed_range_is_ignored() {
        let mut reads = Reads::new(4096);
        let fault = reads.read(5, 1, Tracepoint::Fault, FILE, (3, 0)).unwrap();
        assert!(fault.is_fault);
        assert_eq!((fault.offset_bytes, fault.len_bytes), (3 * 4096, 4096));
        let reversed = reads.read(5, 1, Tracepoint::GetPages, FILE, (3, 0));
        assert_eq!(reversed, None);
    }
}
