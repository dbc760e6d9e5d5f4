//! Tracks the pages that are being read from the device, with one entry for each read request.
//!
//! # Invariants
//! 1. A page is marked busy in the cache if and only if one of these reads includes it.
//! 2. The reads of one file do not overlap.
//! 3. The first element of `reads`, if any, is a read that is in flight. There is an element for each request
//!    number from this read to the latest read. The elements of writes and completed reads are `None`.

use std::collections::{BTreeMap, VecDeque};

use larder_cache::page::NewPage;
use larder_instruments::simulated::RequestId;
use larder_readahead::Ticket;

use super::ids::{FileId, ReaderId};

/// Contiguous pages of a file that the device is reading.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) file: FileId,
    pub(super) first: u64,
    pub(super) pages: Vec<NewPage>,
    /// The page that carries the marker, until it is removed.
    pub(super) marker: Option<u64>,
    /// The measurement of the request, for a policy that needs the duration.
    pub(super) ticket: Option<Ticket>,
    /// Readers that wait for one of the pages, in order of arrival.
    pub(super) waiters: Vec<ReaderId>,
}

/// All reads in progress.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Indexed by request number minus `first_id`, because the device numbers its requests consecutively.
    reads: VecDeque<Option<Reading>>,
    first_id: u64,
    /// For each file, its reads in flight: a map from the first page to the number of pages and the request.
    files: Vec<BTreeMap<u64, (u64, RequestId)>>,
}

impl InFlight {
    pub(super) fn add_file(&mut self) {
        self.files.push(BTreeMap::new());
    }

    pub(super) fn insert(&mut self, id: RequestId, reading: Reading) {
        let pages = reading.pages.len() as u64;
        self.files[reading.file.index()].insert(reading.first, (pages, id));
        if self.reads.is_empty() {
            self.first_id = id.0;
        }
        // The device numbers reads and writes together: add an empty element for each write.
        while self.first_id + (self.reads.len() as u64) < id.0 {
            self.reads.push_back(None);
        }
        self.reads.push_back(Some(reading));
    }

    fn place(&mut self, id: RequestId) -> Option<&mut Option<Reading>> {
        let index = usize::try_from(id.0.checked_sub(self.first_id)?).ok()?;
        self.reads.get_mut(index)
    }

    fn reading(&mut self, id: RequestId) -> Option<&mut Reading> {
        self.place(id)?.as_mut()
    }

    /// Returns the request that reads the page.
    pub(super) fn find(&self, file: FileId, page: u64) -> Option<RequestId> {
        let (first, (pages, id)) = self.files[file.index()].range(..=page).next_back()?;
        (page - first < *pages).then_some(*id)
    }

    /// Removes the marker from the page, and returns whether it had one.
    pub(super) fn take_marker(&mut self, id: RequestId, page: u64) -> bool {
        self.reading(id)
            .and_then(|reading| reading.marker.take_if(|marker| *marker == page))
            .is_some()
    }

    /// Registers `reader` for notification when the read is done.
    pub(super) fn wait(&mut self, id: RequestId, reader: ReaderId) {
        self.reading(id)
            .expect("a reader waits for a read that is in flight")
            .waiters
            .push(reader);
    }

    /// Removes and returns a completed read, or returns `None` if request `id` is not a read.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<Reading> {
        let reading = self.place(id)?.take()?;
        while self.reads.front().is_some_and(Option::is_none) {
            self.reads.pop_front();
            self.first_id += 1;
        }
        self.files[reading.file.index()].remove(&reading.first);
        Some(reading)
    }
}
