//! The simulated machine that readers use: the page cache, the files, the device, and the requests in flight.
//!
//! Model: `filemap.c` over a block device. The cache is Larder's own, with its clock hand instead of Linux's
//! two lists. The memory of pages is mapped and never accessed, so it uses no real memory.

use std::sync::Arc;
use std::time::Duration;

use larder_cache::page::{Frames, FramesConfig, NewPage, PageCache, PageKey};
use larder_instruments::simulated::{Request as DeviceRequest, RequestId, RequestKind};
use larder_instruments::simulated::{SimulatedDevice, VirtualTime};
use larder_readahead::driver::Driver;
use larder_readahead::{Balance, FileState, PolicyName, max_pages_from_bytes};

use super::config::{Error, SimulatorConfig};
use super::ids::ReaderId;
use super::ids::{FileId, FileSpec, PAGE_BYTES};
use super::in_flight::{InFlight, Reading};
use super::write_back::WriteBack;
use crate::run_report::PageCounts;

/// The size and the location of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub(super) size_bytes: u64,
    device_offset_bytes: u64,
}

impl File {
    pub(super) fn pages(self) -> u64 {
        self.size_bytes.div_ceil(PAGE_BYTES)
    }
}

/// The state of the machine. The modules `read` and `write` access its fields.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) driver: Driver,
    max_pages: u32,
    /// The memory and the device estimate that the files share, for a policy that needs them.
    balance: Option<Arc<Balance>>,
    /// Maximum size of a device request, from the maximum size of the device's commands.
    pub(super) max_request_pages: u64,
    pub(super) pages: PageCache,
    pub(super) device: SimulatedDevice,
    pub(super) now: VirtualTime,
    /// The number of the reader that runs, for the device's scheduler.
    pub(super) process: u32,
    pub(super) in_flight: InFlight,
    pub(super) write_back: WriteBack,
    pub(super) counts: PageCounts,
    /// Whether every page is being read, dirty or being written, so that no memory is available until the
    /// device completes a request.
    pub(super) is_memory_full: bool,
    files: Vec<File>,
    /// Vectors of completed reads, for reuse.
    spare: Vec<Vec<NewPage>>,
}

/// The effect of a completed device request on waiting readers.
#[derive(Debug)]
pub(super) struct Completed {
    /// Whether pages were read or written.
    pub(super) kind: CompletedKind,
    /// Number of these pages that can now be evicted.
    pub(super) freed_pages: usize,
}

/// The kind of a completed device request.
#[derive(Debug)]
pub(super) enum CompletedKind {
    /// Pages were read: these readers wait for one of them.
    Read(Vec<ReaderId>),
    /// Pages were written: the flushes of these readers are done.
    Write(Vec<ReaderId>),
}

impl Machine {
    pub(super) fn new(config: &SimulatorConfig) -> Result<Self, Error> {
        let most = u64::from(larder_cache::table::NUMBER_LIMIT / 2);
        let frames = (config.memory_bytes / PAGE_BYTES).clamp(1, most);
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        let page_bytes = usize::try_from(PAGE_BYTES).unwrap_or(usize::MAX);
        let pool = Frames::new(&FramesConfig::of_pages(
            page_bytes,
            frames,
            (u64::from(frames) * 4 / 3).ilog2(),
        ))
        .map_err(|source| Error::Map {
            memory_bytes: config.memory_bytes,
            source,
        })?;
        let page_bytes = u32::try_from(PAGE_BYTES).unwrap_or(u32::MAX);
        let queue = &config.device.queue;
        let max_request_pages = queue
            .max_command_bytes
            .map_or(u64::MAX, |most| (most.value / PAGE_BYTES).max(1));
        let write_back = WriteBack::new(frames.into(), max_request_pages, queue.nr_requests.value);
        Ok(Self {
            driver: Driver::new(config.policy.policy()),
            max_request_pages,
            max_pages: max_pages_from_bytes(config.readahead_max_bytes, page_bytes),
            balance: (config.policy == PolicyName::Adaptive)
                .then(|| Arc::new(Balance::new(frames))),
            pages: PageCache::new(Arc::new(pool)),
            device: SimulatedDevice::new(&config.device, config.seed),
            now: VirtualTime::default(),
            process: 0,
            in_flight: InFlight::default(),
            write_back,
            counts: PageCounts::default(),
            is_memory_full: false,
            files: Vec::new(),
            spare: Vec::new(),
        })
    }

    pub(super) fn add_file(&mut self, spec: FileSpec) -> Result<FileId, Error> {
        let model = self.device.model();
        let end_bytes = spec
            .size_bytes
            .checked_next_multiple_of(PAGE_BYTES)
            .and_then(|size_bytes| spec.device_offset_bytes.checked_add(size_bytes));
        if end_bytes.is_none_or(|end_bytes| end_bytes > model.size_bytes.value) {
            return Err(Error::OutOfDevice {
                size_bytes: spec.size_bytes,
                device_offset_bytes: spec.device_offset_bytes,
                device: model.name,
                device_size_bytes: model.size_bytes.value,
            });
        }
        let id = FileId(u32::try_from(self.files.len()).map_err(|_| Error::TooManyFiles)?);
        self.files.push(File {
            size_bytes: spec.size_bytes,
            device_offset_bytes: spec.device_offset_bytes,
        });
        self.in_flight.add_file();
        self.write_back.add_file();
        Ok(id)
    }

    /// Returns the readahead state of a file that was just opened.
    pub(super) fn new_state(&self) -> FileState {
        let mut state = FileState::new(self.max_pages);
        if let Some(balance) = &self.balance {
            state.share(balance);
        }
        state
    }

    pub(super) fn file(&self, id: FileId) -> File {
        self.files[id.index()]
    }

    /// Returns all counts since the machine was created.
    pub(super) fn all_counts(&self) -> PageCounts {
        let ahead = self.pages.readahead_counts();
        PageCounts {
            pages_ahead: ahead.pages_ahead,
            pages_used: ahead.pages_used,
            pages_wasted: ahead.pages_wasted,
            ..self.counts
        }
    }

    /// Returns the number of pages that are cached or in flight.
    pub(super) fn cached_pages(&self) -> u64 {
        self.pages.stats().objects
    }

    /// Drops the file's pages that are clean and not in flight.
    pub(super) fn evict(&mut self, file: FileId) {
        let pages = self.file(file).pages();
        self.pages.remove_range(key(file, 0).ino, 0..pages);
        self.is_memory_full = false;
    }

    /// Inserts a page and returns it, to be filled. Returns `None` if the page is cached or being read, or
    /// if no memory is available.
    pub(super) fn insert_page(&mut self, file: FileId, page: u64) -> Option<NewPage> {
        let key = key(file, page);
        if self.is_memory_full {
            return None;
        }
        let new = self.pages.insert_absent(key);
        if new.is_none() && !self.pages.contains(key) {
            self.is_memory_full = true;
        }
        new
    }

    /// Returns an empty vector for the pages of a read.
    pub(super) fn page_vec(&mut self) -> Vec<NewPage> {
        self.spare.pop().unwrap_or_default()
    }

    /// Returns a vector from [`Self::page_vec`] for reuse.
    fn recycle(&mut self, pages: Vec<NewPage>) {
        self.spare.push(pages);
    }

    /// Submits a read of pages of a file to the device.
    pub(super) fn submit_read(&mut self, kind: RequestKind, mut reading: Reading) -> RequestId {
        let pages = reading.pages.len() as u64;
        reading.ticket = self.balance.as_ref().map(|balance| {
            let pages = u32::try_from(pages).unwrap_or(u32::MAX);
            balance.submitted(pages, Duration::from_nanos(self.now.0))
        });
        let id = self.submit(kind, reading.file, reading.first, pages);
        self.in_flight.insert(id, reading);
        id
    }

    fn submit(&mut self, kind: RequestKind, file: FileId, first: u64, pages: u64) -> RequestId {
        let request = DeviceRequest {
            kind,
            process: self.process,
            offset_bytes: self.file(file).device_offset_bytes + first * PAGE_BYTES,
            len_bytes: pages * PAGE_BYTES,
        };
        self.device.submit(self.now, request)
    }

    /// Submits dirty pages to the device, up to the limit of write-back requests in flight.
    pub(super) fn pump_write_back(&mut self) {
        while let Some((file, run)) = self.write_back.next_run() {
            let id = self.submit(RequestKind::Write, file, run.start, run.end - run.start);
            self.write_back.submitted(id, file, run);
        }
    }

    /// Returns the next request that the device has completed by now.
    pub(super) fn complete(&mut self) -> Option<Completed> {
        let id = self.device.complete(self.now)?.id;
        self.is_memory_full = false;
        if let Some(reading) = self.in_flight.remove(id) {
            if let (Some(balance), Some(ticket)) = (&self.balance, reading.ticket) {
                balance.completed(ticket, Duration::from_nanos(self.now.0));
                let counts = self.pages.readahead_counts();
                balance.record_waste(counts.pages_ahead, counts.pages_wasted);
            }
            return Some(Completed {
                freed_pages: reading.pages.len(),
                kind: CompletedKind::Read(self.fill(reading)),
            });
        }
        let mut freed_pages = 0;
        let pages = &self.pages;
        let is_write = self.write_back.completed(id, |file, page| {
            pages.set_clean(key(file, page));
            freed_pages += 1;
        });
        debug_assert!(is_write, "the device completed an unknown request");
        self.pump_write_back();
        Some(Completed {
            freed_pages,
            kind: CompletedKind::Write(self.write_back.take_flushed()),
        })
    }

    /// Marks the pages of `reading` as filled, and returns the readers that wait for them.
    fn fill(&mut self, mut reading: Reading) -> Vec<ReaderId> {
        for (index, mut page) in (reading.first..).zip(reading.pages.drain(..)) {
            if reading.marker == Some(index) {
                page.set_marker();
            }
            page.complete();
        }
        self.recycle(reading.pages);
        reading.waiters
    }

    /// Writes all dirty pages, and waits for all requests in flight.
    pub(super) fn sync(&mut self) {
        self.write_back.flush_all();
        self.pump_write_back();
        while let Some(at) = self.device.next_event() {
            self.now = self.now.max(at);
            while let Some(completed) = self.complete() {
                let (CompletedKind::Read(readers) | CompletedKind::Write(readers)) = completed.kind;
                debug_assert!(
                    readers.is_empty(),
                    "a reader waits after the end of its run"
                );
            }
            self.pump_write_back();
        }
        self.write_back.take_flushed();
    }
}

/// Returns the key of a page in the cache.
pub(super) fn key(file: FileId, page: u64) -> PageKey {
    PageKey {
        ino: u64::from(file.0) + 1,
        index: page,
    }
}
