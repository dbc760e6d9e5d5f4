//! Pages on their way from the device: one entry for each read that it was asked for.
//!
//! Invariants:
//! 1. A page is in the cache as busy exactly while it is in one of these reads.
//! 2. The reads of one file do not overlap.

use std::collections::{BTreeMap, HashMap};

use larder_block::simulated::RequestId;
use larder_cache::page::NewPage;

use super::FileId;
use super::run::ReaderId;

/// Contiguous pages of a file that the device is reading.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) file: FileId,
    pub(super) first: u64,
    pub(super) pages: Vec<NewPage>,
    /// The page that carries the marker, until somebody takes it off.
    pub(super) marker: Option<u64>,
    /// Who waits for one of the pages, in the order they came.
    pub(super) waiters: Vec<ReaderId>,
}

/// All that the device is reading.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    reads: HashMap<RequestId, Reading>,
    /// By file, then by first page: how many pages, and which read.
    files: Vec<BTreeMap<u64, (u64, RequestId)>>,
}

impl InFlight {
    pub(super) fn add_file(&mut self) {
        self.files.push(BTreeMap::new());
    }

    pub(super) fn insert(&mut self, id: RequestId, reading: Reading) {
        let pages = reading.pages.len() as u64;
        self.files[reading.file.index()].insert(reading.first, (pages, id));
        self.reads.insert(id, reading);
    }

    /// The read that brings the page in.
    pub(super) fn find(&self, file: FileId, page: u64) -> Option<RequestId> {
        let (first, (pages, id)) = self.files[file.index()].range(..=page).next_back()?;
        (page - first < *pages).then_some(*id)
    }

    /// Takes the marker off the page; false if it carries none.
    pub(super) fn take_marker(&mut self, id: RequestId, page: u64) -> bool {
        self.reads
            .get_mut(&id)
            .and_then(|reading| reading.marker.take_if(|marker| *marker == page))
            .is_some()
    }

    /// Has `reader` told when the read is done.
    pub(super) fn wait(&mut self, id: RequestId, reader: ReaderId) {
        self.reads
            .get_mut(&id)
            .expect("a reader waits for a read that is in flight")
            .waiters
            .push(reader);
    }

    /// The read is done; `None` if there is none of this number.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<Reading> {
        let reading = self.reads.remove(&id)?;
        self.files[reading.file.index()].remove(&reading.first);
        Some(reading)
    }
}
