//! Tracks dirty pages, and selects which of them to write back next.
//!
//! Model: `pdflush` and `balance_dirty_pages` of Linux 2.6.20. Background write-back runs while more than 10%
//! of memory is dirty. Writers wait while at least 40% of memory is dirty or being written. Background
//! write-back submits runs of dirty pages of one file until they have 4 MiB or more, and then proceeds to the
//! next file. Later it continues at the page where it left the file. The runs are in order of offset; after
//! the last dirty page of a file, the first one follows. At most `nr_requests` writes are in flight.
//! Deliberate differences: no page is written because of its age, there is no journal, and waiting writers do
//! not write themselves.
//!
//! As in the whole simulator, a *reader* is any simulated process, including one that writes or flushes.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

use larder_instruments::simulated::RequestId;

use super::ids::FileId;
use super::ids::ReaderId;
use super::page_set::PageSet;

/// Linux's `dirty_background_ratio` of 2.6.20, in percent of memory.
const BACKGROUND_PCT: u64 = 10;
/// Linux's `dirty_ratio` of 2.6.20, in percent of memory.
const LIMIT_PCT: u64 = 40;
/// Linux's `MAX_WRITEBACK_PAGES`: the number of pages after which background write-back proceeds to the next
/// file.
const TURN_PAGES: u64 = 1024;

/// The dirty pages of one file, and its writes in progress.
#[derive(Debug, Default)]
struct FileWrites {
    /// The pages that changed after their last write was submitted.
    dirty: PageSet,
    /// The pages that are being written. A page that changes during its write is in both sets.
    writing: PageSet,
    /// The writes in progress.
    requests: BTreeSet<RequestId>,
    /// The page at which background write-back continues in this file.
    cursor: u64,
}

/// A flush of a file, with the reader that waits for it, if any.
///
/// A flush makes two passes over the dirty pages of the file. Each pass submits the dirty pages, except those
/// that are being written, and then waits until all writes of the file that are in progress at that time are
/// done. The second pass is for the pages that the first pass left dirty; if there are none, it is skipped.
/// Two passes are sufficient. If a page is being written during the second pass, this write was submitted after
/// the flush began. Therefore it contains all data of the page that the flush must write.
#[derive(Debug)]
struct Flush {
    reader: Option<ReaderId>,
    file: FileId,
    cursor: u64,
    is_second_pass: bool,
}

/// A flush whose current pass has submitted all its pages.
#[derive(Debug)]
struct Submitted {
    flush: Flush,
    /// The last of the writes that the pass waits for: all writes of the file up to this one.
    last: Option<RequestId>,
    needs_second_pass: bool,
}

/// The dirty pages of all files, and the pages that are being written.
#[derive(Debug)]
pub(super) struct WriteBack {
    files: Vec<FileWrites>,
    dirty_files: BTreeSet<FileId>,
    requests: HashMap<RequestId, (FileId, Range<u64>)>,
    dirty_pages: u64,
    writing_pages: u64,
    background_pages: u64,
    limit_pages: u64,
    /// Maximum number of pages in a run.
    most_run_pages: u64,
    /// Maximum number of writes in flight.
    most_requests: usize,
    /// Requested flushes, oldest first.
    flushes: VecDeque<Flush>,
    submitted: Vec<Submitted>,
    /// Readers whose flushes are done, until [`WriteBack::take_flushed`] returns them.
    flushed: Vec<ReaderId>,
    /// The file that background write-back writes now, and the number of pages until it proceeds to the next
    /// file.
    turn: (FileId, u64),
}

impl WriteBack {
    pub(super) fn new(memory_pages: u64, most_run_pages: u64, most_requests: usize) -> Self {
        Self {
            files: Vec::new(),
            dirty_files: BTreeSet::new(),
            requests: HashMap::new(),
            dirty_pages: 0,
            writing_pages: 0,
            background_pages: memory_pages * BACKGROUND_PCT / 100,
            limit_pages: (memory_pages * LIMIT_PCT / 100).max(1),
            most_run_pages: most_run_pages.min(TURN_PAGES),
            most_requests: most_requests.max(1),
            flushes: VecDeque::new(),
            submitted: Vec::new(),
            flushed: Vec::new(),
            turn: (FileId(0), TURN_PAGES),
        }
    }

    pub(super) fn add_file(&mut self) {
        self.files.push(FileWrites::default());
    }

    /// Returns whether writers must wait because too many pages are dirty or being written.
    pub(super) fn is_over_limit(&self) -> bool {
        self.unclean_pages() >= self.limit_pages
    }

    /// Returns the number of pages that are dirty or being written.
    pub(super) fn unclean_pages(&self) -> u64 {
        self.dirty_pages + self.writing_pages
    }

    /// Records that a page was changed in the cache.
    pub(super) fn set_dirty(&mut self, file: FileId, page: u64) {
        if self.files[file.index()].dirty.insert(page) {
            self.dirty_pages += 1;
            self.dirty_files.insert(file);
        }
    }

    /// Requests a flush of the file. [`Self::take_flushed`] returns `reader` when the flush is done.
    pub(super) fn flush(&mut self, file: FileId, reader: Option<ReaderId>) {
        self.flushes.push_back(Flush {
            reader,
            file,
            cursor: 0,
            is_second_pass: false,
        });
    }

    /// Requests a flush of all dirty pages.
    pub(super) fn flush_all(&mut self) {
        for file in self.dirty_files.clone() {
            self.flush(file, None);
        }
    }

    /// Returns the next run to write, if any. Runs of flushes precede those of background write-back. The
    /// caller submits the run to the device, and then calls [`Self::submitted`].
    pub(super) fn next_run(&mut self) -> Option<(FileId, Range<u64>)> {
        self.end_flushes();
        if self.requests.len() >= self.most_requests {
            return None;
        }
        while let Some(mut flush) = self.flushes.pop_front() {
            let file = flush.file;
            let writes = &self.files[file.index()];
            if let Some(run) = writes.next_run(flush.cursor, self.most_run_pages) {
                flush.cursor = run.end;
                self.flushes.push_front(flush);
                return Some((file, run));
            }
            self.submitted.push(Submitted {
                // The flush also waits for writes that were already in progress.
                last: writes.requests.last().copied(),
                needs_second_pass: !flush.is_second_pass && !writes.dirty.is_empty(),
                flush,
            });
            self.end_flushes();
        }
        if self.dirty_pages > self.background_pages {
            self.next_background_run()
        } else {
            None
        }
    }

    /// Returns the next run of background write-back.
    fn next_background_run(&mut self) -> Option<(FileId, Range<u64>)> {
        // The loop visits each dirty file at least once. In each file, it searches from the cursor to the
        // end, and then the whole file. It finds nothing in a file whose dirty pages are all being written.
        for _ in 0..=self.dirty_files.len() {
            let (turn, left) = self.turn;
            let file = if left > 0 && self.dirty_files.contains(&turn) {
                turn
            } else {
                let after = self.dirty_files.range(FileId(turn.0.saturating_add(1))..);
                let file = *after.chain(&self.dirty_files).next()?;
                self.turn = (file, TURN_PAGES);
                file
            };
            let writes = &mut self.files[file.index()];
            let run = writes
                .next_run(writes.cursor, self.most_run_pages)
                .or_else(|| writes.next_run(0, self.most_run_pages));
            if let Some(run) = run {
                writes.cursor = run.end;
                self.turn.1 = self.turn.1.saturating_sub(run.end - run.start);
                return Some((file, run));
            }
            self.turn.1 = 0;
        }
        None
    }

    /// Records that `run` was submitted to the device as request `id`.
    pub(super) fn submitted(&mut self, id: RequestId, file: FileId, run: Range<u64>) {
        let writes = &mut self.files[file.index()];
        for page in run.clone() {
            writes.dirty.remove(page);
            writes.writing.insert(page);
        }
        writes.requests.insert(id);
        if writes.dirty.is_empty() {
            self.dirty_files.remove(&file);
        }
        self.dirty_pages -= run.end - run.start;
        self.writing_pages += run.end - run.start;
        self.requests.insert(id, (file, run));
    }

    /// Records that a write is done, and passes each page that is now clean to `clean`. Returns false if `id`
    /// is not a write.
    pub(super) fn completed(&mut self, id: RequestId, mut clean: impl FnMut(FileId, u64)) -> bool {
        let Some((file, run)) = self.requests.remove(&id) else {
            return false;
        };
        let writes = &mut self.files[file.index()];
        writes.requests.remove(&id);
        self.writing_pages -= run.end - run.start;
        for page in run {
            writes.writing.remove(page);
            if !writes.dirty.contains(page) {
                clean(file, page);
            }
        }
        true
    }

    /// Processes each flush whose current pass waits for no more writes. If the flush needs a second pass, requests
    /// this pass. Otherwise ends the flush.
    fn end_flushes(&mut self) {
        let files = &self.files;
        let is_written = |submitted: &mut Submitted| {
            let first = files[submitted.flush.file.index()].requests.first();
            first.is_none_or(|first| Some(*first) > submitted.last)
        };
        for done in self.submitted.extract_if(.., is_written) {
            if done.needs_second_pass {
                self.flushes.push_back(Flush {
                    cursor: 0,
                    is_second_pass: true,
                    ..done.flush
                });
            } else {
                self.flushed.extend(done.flush.reader);
            }
        }
    }

    /// Removes and returns the readers whose flushes are done, in order of completion.
    pub(super) fn take_flushed(&mut self) -> Vec<ReaderId> {
        std::mem::take(&mut self.flushed)
    }
}

impl FileWrites {
    /// Returns the first run of dirty pages at or after `from` that are not being written, truncated to
    /// `most_pages`.
    fn next_run(&self, from: u64, most_pages: u64) -> Option<Range<u64>> {
        self.dirty.next_run(from, most_pages, &self.writing)
    }
}
