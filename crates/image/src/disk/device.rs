//! The device of a disk image.

use super::budget::Budget;
use super::buffers::{clear, part_mut};
use super::cache::{Key, PartCache};
use super::error::corrupt;
use super::layout::{Extent, Layout, PackedUnit, Place};
use super::tables::Tables;
use crate::Format;
use larder_block::{
    BlockDevice, Error, Priority, Request, Result, ThreadedDevice, accepted, check_range,
    read_owned, scatter, total_bytes,
};
use std::io::IoSliceMut;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// What a disk image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskInfo {
    /// The format of the file.
    pub format: Format,
    /// The size of the disk in bytes.
    pub size_bytes: u64,
    /// The size of a cluster (qcow2), a grain (VMDK) or the largest frame (zstd) in bytes.
    pub unit_bytes: u64,
}

/// The disk in a disk image. It is read-only. The offsets in errors of the file's device are those in the file.
#[derive(Debug)]
pub struct DiskDevice {
    disk: Arc<Disk>,
    /// Performs requests that the device of the file cannot perform as they are.
    threads: ThreadedDevice,
    info: DiskInfo,
}

impl DiskDevice {
    pub(super) fn new(disk: Disk, info: DiskInfo) -> Self {
        let disk = Arc::new(disk);
        Self {
            threads: ThreadedDevice::new(Arc::clone(&disk) as _),
            disk,
            info,
        }
    }

    /// Returns what the image is.
    #[must_use]
    pub fn info(&self) -> DiskInfo {
        self.info
    }

    /// Divides `requests` into those for the device of the file, with their offsets in the file, and those for the
    /// threads. Completes those that are invalid, and those that read only zeros.
    fn divided(&self, requests: Vec<Request>) -> (Vec<Request>, Vec<Request>) {
        let requests = accepted(requests, |at, len, is_write| {
            if is_write {
                return Err(Error::ReadOnly);
            }
            check_range(self.size_bytes(), at, len)
        });
        let (mut stored, mut others) = (Vec::new(), Vec::new());
        for request in requests {
            let (offset_bytes, len_bytes) = (request.offset_bytes(), request.len_bytes());
            match self.disk.only_place(offset_bytes, len_bytes) {
                Some(Place::Stored(at_bytes)) => stored.push(request.with_offset(at_bytes)),
                Some(Place::Zero) => request.perform(
                    |bufs, _| {
                        clear(bufs);
                        Ok(())
                    },
                    |_, _| Err(Error::ReadOnly),
                ),
                Some(Place::Packed(_)) | None => others.push(request),
            }
        }
        (stored, others)
    }

    /// Returns the ranges of the file that store a range of the disk, as far as its tables are cached. Adjacent ranges are
    /// joined.
    fn stored_ranges(&self, offset_bytes: u64, len_bytes: u64) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        if check_range(self.size_bytes(), offset_bytes, len_bytes).is_err() {
            return ranges;
        }
        let (mut at_bytes, end_bytes) = (offset_bytes, offset_bytes + len_bytes);
        while at_bytes < end_bytes
            && let Ok(Some(extent)) = self.disk.extent(at_bytes, end_bytes - at_bytes, false)
        {
            at_bytes += extent.len_bytes;
            let next = match extent.place {
                Place::Zero => continue,
                Place::Stored(stored) => stored..stored + extent.len_bytes,
                Place::Packed(unit) => unit.stored,
            };
            match ranges.last_mut() {
                // The ranges of compressed units can overlap, because their exact ends are unknown.
                Some(last) if (last.start..=last.end).contains(&next.start) => {
                    last.end = last.end.max(next.end);
                }
                _ => ranges.push(next),
            }
        }
        ranges
    }
}

impl BlockDevice for DiskDevice {
    fn size_bytes(&self) -> u64 {
        self.info.size_bytes
    }

    /// The device of the file. Its pieces need no translation: uncompressed units usually begin at the start of a
    /// piece.
    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.disk.file)
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.disk.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.disk.read_vectored_at(bufs, offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        let (stored, others) = self.divided(requests);
        self.disk.file.submit(stored);
        self.threads.submit(others);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        let (stored, others) = self.divided(requests);
        let file = &self.disk.file;
        match (stored.len(), others.len()) {
            (_, 0) => file.perform(stored, timeout),
            (0, 1) => self.threads.perform(others, timeout),
            _ => self
                .threads
                .perform_during(others, timeout, || file.perform(stored, timeout)),
        }
    }

    fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        self.threads.expedite(offset_bytes, len_bytes);
        for range in self.stored_ranges(offset_bytes, len_bytes) {
            self.disk
                .file
                .expedite(range.start, range.end - range.start);
        }
    }

    fn announce(&self, offset_bytes: u64, len_bytes: u64, priority: Priority) {
        for range in self.stored_ranges(offset_bytes, len_bytes) {
            let len_bytes = range.end - range.start;
            self.disk.file.announce(range.start, len_bytes, priority);
        }
    }

    fn cancel_in_flight(&self) {
        self.threads.cancel_in_flight();
        self.disk.file.cancel_in_flight();
    }
}

/// A disk, with blocking calls only.
#[derive(Debug)]
pub(super) struct Disk {
    file: Arc<dyn BlockDevice>,
    layout: Box<dyn Layout>,
    cache: PartCache,
    /// The memory for units that are decompressed at present.
    budget: Budget,
}

impl Disk {
    /// Creates a disk that caches tables and units in `memory_bytes`, and uses as much to decompress units.
    pub(super) fn new(
        file: Arc<dyn BlockDevice>,
        layout: Box<dyn Layout>,
        memory_bytes: u64,
    ) -> Self {
        Self {
            file,
            layout,
            cache: PartCache::new(memory_bytes),
            budget: Budget::new(memory_bytes),
        }
    }

    /// Returns the extent at the start of a range that is inside the disk and not empty. Returns `None` if a table is not
    /// cached and `may_wait` is false.
    fn extent(&self, offset_bytes: u64, len_bytes: u64, may_wait: bool) -> Result<Option<Extent>> {
        let tables = Tables {
            file: &*self.file,
            cache: &self.cache,
            may_wait,
        };
        let extent = self.layout.extent(&tables, offset_bytes, len_bytes)?;
        Ok(extent.map(|mut extent| {
            if let Place::Stored(stored) = extent.place {
                let left_bytes = self.file.size_bytes().saturating_sub(stored);
                extent.len_bytes = extent.len_bytes.min(left_bytes);
            }
            extent
        }))
    }

    /// Reads a range of the file.
    fn read_file(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let timeout = self.file.timeout();
        read_owned(&*self.file, vec![0; len], range.start, timeout)
    }

    /// Returns the place of the first byte of a range that is inside the disk, if the whole range is stored without a gap
    /// or is zero, and its tables are cached.
    fn only_place(&self, offset_bytes: u64, len_bytes: u64) -> Option<Place> {
        if len_bytes == 0 {
            return Some(Place::Zero);
        }
        let first = self.extent(offset_bytes, len_bytes, false).ok()??;
        let mut done_bytes = first.len_bytes;
        while done_bytes < len_bytes {
            let at_bytes = offset_bytes + done_bytes;
            let next = self
                .extent(at_bytes, len_bytes - done_bytes, false)
                .ok()??;
            if !next.place.follows(&first.place, done_bytes) {
                return None;
            }
            done_bytes += next.len_bytes;
        }
        Some(first.place)
    }

    /// Returns the content of a compressed unit.
    fn unpacked(&self, unit: &PackedUnit) -> Result<Arc<Vec<u8>>> {
        self.cache.get_or_fill(Key::Unit(unit.start_bytes), || {
            let stored_bytes = unit.stored.end - unit.stored.start;
            let memory_bytes = stored_bytes + self.layout.unpack_memory_bytes(unit);
            let _reserved = self.budget.reserve(memory_bytes);
            let stored = self.read_file(unit.stored.clone())?;
            // A panic would end the thread, and its device would perform no further requests.
            let unpack = AssertUnwindSafe(|| self.layout.unpack(unit, &stored));
            let unpacked = catch_unwind(unpack).unwrap_or(Err("the decoder of a unit has failed"));
            unpacked.map_err(|what| corrupt(unit.start_bytes, unit.len as u64, what))
        })
    }

    /// Fills the bytes of `bufs` from `skip` on with the bytes of `unit`, which are at `offset_bytes` of the disk.
    fn read_unit(
        &self,
        unit: &PackedUnit,
        bufs: &mut [IoSliceMut<'_>],
        skip: usize,
        range: Range<u64>,
    ) -> Result<()> {
        let content = self.unpacked(unit)?;
        let index = |at_bytes: u64| usize::try_from(at_bytes - unit.start_bytes).ok();
        let part = index(range.start)
            .zip(index(range.end))
            .and_then(|(start, end)| content.get(start..end));
        let missing = || corrupt(range.start, range.end - range.start, "a unit is too short");
        scatter(part.ok_or_else(missing)?, bufs, skip);
        Ok(())
    }
}

impl BlockDevice for Disk {
    fn size_bytes(&self) -> u64 {
        self.layout.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.read_vectored_at(&mut [IoSliceMut::new(buf)], offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        let len_bytes = total_bytes(bufs);
        check_range(self.size_bytes(), offset_bytes, len_bytes)?;
        let end_bytes = offset_bytes + len_bytes;
        let (mut at_bytes, mut skip) = (offset_bytes, 0);
        while at_bytes < end_bytes {
            let left_bytes = end_bytes - at_bytes;
            let Some(extent) = self.extent(at_bytes, left_bytes, true)? else {
                return Err(corrupt(at_bytes, left_bytes, "a table is missing"));
            };
            let next_bytes = at_bytes + extent.len_bytes;
            let len = usize::try_from(extent.len_bytes).unwrap_or(usize::MAX);
            match extent.place {
                Place::Zero => clear(&mut part_mut(bufs, skip, len)),
                Place::Stored(stored) => {
                    let bytes = self.read_file(stored..stored + extent.len_bytes)?;
                    scatter(&bytes, bufs, skip);
                }
                Place::Packed(unit) => self.read_unit(&unit, bufs, skip, at_bytes..next_bytes)?,
            }
            at_bytes = next_bytes;
            skip += len;
        }
        Ok(())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
