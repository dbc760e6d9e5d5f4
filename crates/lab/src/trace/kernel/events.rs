//! Converts the kernel's events to cache events. [`super::reads`] derives reads of files from the same events.
//!
//! # Model
//! The kernel reports when a page, a block or an inode is inserted or removed, and some lookups. Further
//! lookups are derived where the reported event implies them:
//!
//! | event | is written as |
//! |---|---|
//! | a folio is added | an insertion of each page |
//! | a page of a device is added | a lookup that misses, and an insertion, of each block |
//! | `page_cache_sync_ra` | a lookup that misses |
//! | `mm_filemap_fault` | a lookup |
//! | `mm_filemap_get_pages` | a lookup that hits, of the first page and of each following page that is known to be present |
//! | `mm_filemap_map_pages` | a lookup that hits, of each page that is known to be present |
//! | `block_touch_buffer` | a lookup that hits |
//! | `ext4_load_inode` | a lookup that misses, and an insertion |
//! | `ext4_allocate_inode` | an insertion |
//!
//! # Invariants
//! A lookup hits if and only if the entry was inserted before and not removed since. An entry is inserted
//! only if it is absent, and removed only if it is present. Therefore, an entry that was cached before the
//! recording began is inserted immediately before it is first found.

use super::reads::Reads;
use super::resident::{Key, Resident};
use super::source::RawEvent;
use super::tracepoint::Tracepoint;
use larder_cache::tape::{CacheKind, Operation};
use larder_trace::{Row, TraceEvent};
use std::collections::{HashMap, HashSet};

/// The largest folio has 2^`MAX_ORDER` pages. A larger order is invalid.
const MAX_ORDER: u64 = 20;
/// Larger than the number of pages that one call can read.
const MAX_PAGES: u64 = 1 << 19;
const SECTOR_BYTES: u64 = 512;

/// Device requests and readahead windows of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Number of read requests.
    pub reads: u64,
    /// Bytes of the read requests.
    pub read_bytes: u64,
    /// Number of write requests.
    pub writes: u64,
    /// Bytes of the write requests.
    pub written_bytes: u64,
    /// Number of readahead windows that began with a missing page.
    pub sync_windows: u64,
    /// Number of readahead windows that began at a marker.
    pub async_windows: u64,
}

/// The known state of the kernel's caches.
#[derive(Debug)]
pub(super) struct Translator {
    resident: Resident,
    reads: Reads,
    /// The block devices, and the block sizes of their file systems.
    devices: Devices,
    page_bytes: u64,
    began_ns: u64,
    pub counts: DeviceCounts,
}

/// Block devices.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices {
    /// The numbers of the devices, in the kernel's internal form.
    pub numbers: HashSet<u32>,
    /// Block sizes in bytes of the devices with file systems.
    pub block_bytes: HashMap<u32, u64>,
}

impl Translator {
    /// Creates a translator for a recording that began at `began_ns`.
    pub(super) fn new(devices: Devices, page_bytes: u64, began_ns: u64) -> Self {
        Self {
            resident: Resident::default(),
            reads: Reads::new(page_bytes),
            devices,
            page_bytes,
            began_ns,
            counts: DeviceCounts::default(),
        }
    }

    /// Returns the time of the recording at `time`, a time of the kernel's clock.
    pub(super) fn elapsed_ns(&self, time: u64) -> u64 {
        time.saturating_sub(self.began_ns)
    }

    /// Converts `event` to rows, and calls `emit` with each of them.
    pub(super) fn translate(&mut self, event: RawEvent, emit: &mut dyn FnMut(Row)) {
        let RawEvent {
            time,
            thread,
            tracepoint,
            fields: [device, second, third, fourth],
        } = event;
        let Ok(device) = u32::try_from(device) else {
            return;
        };
        let time_ns = self.elapsed_ns(time);
        let is_file = self.devices.of_page(device, second).is_none();
        let read = is_file.then(|| {
            let (file, pages) = ((device, second), (third, fourth));
            self.reads.read(time_ns, thread, tracepoint, file, pages)
        });
        let mut output = Output {
            time_ns,
            resident: &mut self.resident,
            emit: &mut *emit,
        };
        let page = |index| page(device, second, index);
        match tracepoint {
            Tracepoint::AddFolio | Tracepoint::DeleteFolio => {
                let count = 1 << fourth.min(MAX_ORDER);
                let is_insertion = tracepoint == Tracepoint::AddFolio;
                match self.devices.of_page(device, second) {
                    Some(of_blocks) => {
                        let size = self.devices.block_bytes(of_blocks, self.page_bytes);
                        let in_page = (self.page_bytes / size).max(1);
                        let first = third.saturating_mul(in_page);
                        for block in range(first, count * in_page) {
                            output.block(buffer(of_blocks, block), is_insertion);
                        }
                    }
                    None => {
                        range(third, count)
                            .for_each(|index| output.page(page(index), is_insertion));
                    }
                }
            }
            Tracepoint::SyncReadahead => {
                self.counts.sync_windows += 1;
                if is_file {
                    output.lookup(page(third));
                }
            }
            Tracepoint::AsyncReadahead => self.counts.async_windows += 1,
            Tracepoint::Fault => output.lookup(page(third)),
            Tracepoint::GetPages if is_file => {
                output.found(page(third));
                let others = fourth.saturating_sub(third).min(MAX_PAGES);
                let others = range(third.saturating_add(1), others).map(page);
                others.for_each(|key| output.lookup_if_cached(key));
            }
            Tracepoint::GetPages => {}
            Tracepoint::MapPages => {
                let count = fourth.saturating_add(1).saturating_sub(third);
                let pages = range(third, count.min(MAX_PAGES)).map(page);
                pages.for_each(|key| output.lookup_if_cached(key));
            }
            Tracepoint::TouchBuffer => {
                self.devices.block_bytes.insert(device, third);
                output.found(buffer(device, second));
            }
            Tracepoint::LoadInode => {
                let key = inode(device, second);
                output.removed(key);
                output.lookup(key);
                output.inserted(key);
            }
            Tracepoint::AllocateInode => output.inserted(inode(device, second)),
            Tracepoint::EvictInode => output.removed(inode(device, second)),
            Tracepoint::QueueBio => {
                let bytes = second.saturating_mul(SECTOR_BYTES);
                self.counts.request(bytes, third);
            }
        }
        if let Some(read) = read.flatten() {
            emit(Row::Read(read));
        }
    }
}

impl Devices {
    /// Returns the block device whose blocks are the pages of `inode` of `device`, or `None` if the inode is
    /// a file.
    fn of_page(&self, device: u32, inode: u64) -> Option<u32> {
        let number = u32::try_from(inode).ok()?;
        (device >> 20 == 0 && self.numbers.contains(&number)).then_some(number)
    }

    fn block_bytes(&self, device: u32, page_bytes: u64) -> u64 {
        let known = self.block_bytes.get(&device);
        known
            .copied()
            .unwrap_or(page_bytes)
            .clamp(SECTOR_BYTES, page_bytes)
    }
}

impl DeviceCounts {
    /// Counts a request of `bytes`; `what` is the kernel's letter for the type of request.
    fn request(&mut self, bytes: u64, what: u64) {
        match u8::try_from(what) {
            Ok(b'R') => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            // `F` is a write that is preceded by a flush.
            Ok(b'W' | b'F') if bytes > 0 => {
                self.writes += 1;
                self.written_bytes += bytes;
            }
            _ => {}
        }
    }
}

fn page(device: u32, inode: u64, index: u64) -> Key {
    Key {
        cache: CacheKind::Page,
        device,
        inode,
        index,
    }
}

fn buffer(device: u32, index: u64) -> Key {
    Key {
        cache: CacheKind::Buffer,
        device,
        inode: 0,
        index,
    }
}

fn inode(device: u32, number: u64) -> Key {
    Key {
        cache: CacheKind::Inode,
        device,
        inode: number,
        index: 0,
    }
}

fn range(first: u64, count: u64) -> std::ops::Range<u64> {
    first..first.saturating_add(count)
}

/// Emits the cache events of one kernel event. They have the time of the kernel event.
struct Output<'a> {
    time_ns: u64,
    resident: &'a mut Resident,
    emit: &'a mut dyn FnMut(Row),
}

impl Output<'_> {
    fn emit(&mut self, key: Key, operation: Operation) {
        (self.emit)(Row::Cache(TraceEvent {
            time_ns: self.time_ns,
            cache: key.cache,
            operation,
            device: key.device,
            inode: key.inode,
            index: key.index,
            name_hash: 0,
        }));
    }

    fn inserted(&mut self, key: Key) {
        if self.resident.insert(key) {
            self.emit(key, Operation::Insert);
        }
    }

    fn removed(&mut self, key: Key) {
        if self.resident.remove(key) {
            self.emit(key, Operation::Remove);
        }
    }

    fn lookup(&mut self, key: Key) {
        let hit = self.resident.contains(key);
        self.emit(key, Operation::Lookup { hit });
    }

    fn lookup_if_cached(&mut self, key: Key) {
        if self.resident.contains(key) {
            self.emit(key, Operation::Lookup { hit: true });
        }
    }

    /// Records a lookup that found `key`, which may have been cached before the recording.
    fn found(&mut self, key: Key) {
        self.inserted(key);
        self.lookup(key);
    }

    fn page(&mut self, key: Key, is_insertion: bool) {
        if is_insertion {
            self.inserted(key);
        } else {
            self.removed(key);
        }
    }

    /// Records the insertion or removal of a block. Before the insertion of a block that is absent, records a
    /// lookup that misses.
    fn block(&mut self, key: Key, is_insertion: bool) {
        if is_insertion && !self.resident.contains(key) {
            self.lookup(key);
        }
        self.page(key, is_insertion);
    }
}

#[cfg(test)]
mod tests;
