//! The block device of an overlay: reads, writes and flushes.
//!
//! # Locking
//! Locks are taken in this order:
//!
//! 1. `flushing` is held during a flush. A concurrent flush waits, because the first flush may be writing changes that the
//!    second must make durable.
//! 2. `space` is held while subclusters are added to the file. Otherwise, two writers of different parts of one subcluster
//!    could both copy the content of the base, and one copy would overwrite the bytes of the other writer. The base is read
//!    before this lock is taken, because a base on a server can take long to answer. Writes to stored subclusters do not take
//!    this lock.
//! 3. `map` is held to look up or change entries, never during I/O. [`Overlay::changes`] holds it for reading while it
//!    scans the tables of the whole disk.

use super::base::{Base, version};
use super::error::OverlayError;
use super::header::{
    CLUSTER_BYTES, CommitState, Geometry, Head, SUBCLUSTER_BYTES, TABLE_SPAN_BYTES,
};
use super::map::{Map, Piece, Place};
use super::space::{SECTOR_BYTES, Space};
use crate::disk::buffers::{clear, part, part_mut};
use larder_block::{
    BlockDevice, Error, Priority, Request, Result, ThreadedDevice, accepted, check_range,
    gathered_bytes, total_bytes, write_all,
};
use parking_lot::{Mutex, RwLock};
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The maximum number of bytes of the refcount blocks that are read at a time.
const READ_BYTES: u64 = 1 << 20;

/// What an overlay records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayInfo {
    /// The base for which the overlay was created, or to which a commit has begun.
    pub base: Base,
    /// The size of the disk in bytes.
    pub size_bytes: u64,
    /// How far a commit has written the changes to the base.
    pub commit: CommitState,
}

/// A disk whose changes are stored in an overlay file. Parts that have not changed are read from the base.
///
/// The disk is writable if the overlay file is. An error of the overlay file contains the offset in this file, not on the
/// disk.
#[derive(Debug)]
pub struct Overlay {
    layers: Arc<Layers>,
    /// Performs the requests that cannot be passed unchanged to the base or to the file, for example if both store a part.
    threads: ThreadedDevice,
}

impl Overlay {
    /// Returns the maximum size in bytes of the overlay file for a disk of `size_bytes`. This includes the checksums that
    /// a commit appends.
    ///
    /// # Errors
    /// [`OverlayError::TooLarge`] if the disk has more than 64 TiB.
    pub fn max_file_bytes(size_bytes: u64) -> Result<u64, OverlayError> {
        Ok(Geometry::new(size_bytes)?.file_bytes())
    }

    /// Writes to `file` an overlay on `base` that contains no changes. `file` must have the size
    /// [`Overlay::max_file_bytes`], and contain only zeros.
    ///
    /// The overlay records the `name` of the base for other programs: its path, or its URL without secrets. If the name has
    /// more than 1,023 bytes, it is shortened, and other programs do not find the base. The overlay also records the `format`
    /// of the base under the name that qemu uses, for example `raw`.
    ///
    /// # Errors
    /// - [`OverlayError::TooLarge`] if the disk has more than 64 TiB, or if `format` or the version of the base is too long.
    /// - [`OverlayError::Base`] if the base cannot be read.
    /// - [`OverlayError::Device`] if `file` cannot be written.
    pub fn create(
        file: &dyn BlockDevice,
        base: &dyn BlockDevice,
        name: Vec<u8>,
        format: String,
    ) -> Result<(), OverlayError> {
        let head = Head {
            geometry: Geometry::new(base.size_bytes())?,
            base: Base {
                name,
                format,
                version: version(base).map_err(OverlayError::Base)?,
            },
            commit: CommitState::None,
        };
        head.create(file)
    }

    /// Returns what the header of the overlay in `file` records.
    ///
    /// # Errors
    /// If the file is not an overlay, has a damaged header, was written by another program, or cannot be read.
    pub fn info(file: &dyn BlockDevice) -> Result<OverlayInfo, OverlayError> {
        let Head {
            geometry,
            base,
            commit,
        } = Head::read(file)?;
        Ok(OverlayInfo {
            base,
            size_bytes: geometry.size_bytes,
            commit,
        })
    }

    /// Opens the overlay in `file` on `base`. If `file` is writable, frees clusters that have a reference count but are not
    /// used. A power loss can leave such clusters.
    ///
    /// # Errors
    /// - If the file is not an overlay, is damaged or truncated, or was written by another program.
    /// - [`OverlayError::OtherBase`] if `base` is not the recorded base, or has changed.
    /// - [`OverlayError::Committing`] if a commit was interrupted.
    /// - [`OverlayError::Committed`] if a commit has written all changes to the base.
    /// - If the file or the base cannot be read.
    pub fn open(
        file: Arc<dyn BlockDevice>,
        base: Arc<dyn BlockDevice>,
    ) -> Result<Self, OverlayError> {
        let head = Head::read(&*file)?;
        match head.commit {
            CommitState::None => {}
            CommitState::Begun { .. } => {
                return Err(OverlayError::Committing {
                    recorded: head.base.name,
                });
            }
            CommitState::Complete => return Err(OverlayError::Committed),
        }
        let given = version(&*base).map_err(OverlayError::Base)?;
        if !head.base.matches(&*base, &given) || head.geometry.size_bytes != base.size_bytes() {
            return Err(OverlayError::OtherBase {
                recorded: head.base,
                given,
            });
        }
        Self::with_head(file, base, &head)
    }

    /// Opens the overlay in `file`, from which `head` was read, on `base`. Checks neither the base nor the state of the
    /// commit.
    pub(super) fn with_head(
        file: Arc<dyn BlockDevice>,
        base: Arc<dyn BlockDevice>,
        head: &Head,
    ) -> Result<Self, OverlayError> {
        let geometry = head.geometry;
        let mut space = Space::new(&geometry);
        let map = Map::read(&*file, &geometry, &mut space)?;
        if file.is_writable() {
            check_refcounts(&*file, &geometry, &mut space)?;
        }
        let layers = Arc::new(Layers {
            size_bytes: geometry.size_bytes,
            refcounts_offset: geometry.refcounts_offset(),
            base,
            file,
            map: RwLock::new(map),
            space: Mutex::new(space),
            flushing: Mutex::new(()),
            failure: OnceLock::new(),
        });
        Ok(Self {
            threads: ThreadedDevice::new(Arc::clone(&layers) as _),
            layers,
        })
    }

    /// Returns the ranges of the disk that are not read from the base, in bytes and in ascending order. The content of a
    /// range can be equal to that of the base.
    #[must_use]
    pub fn changes(&self) -> Vec<Range<u64>> {
        let mut changes: Vec<Range<u64>> = Vec::new();
        let map = self.layers.map.read();
        let mut at_bytes = 0;
        while at_bytes < self.layers.size_bytes {
            let left_bytes = self.layers.size_bytes - at_bytes;
            let table_bytes = TABLE_SPAN_BYTES - at_bytes % TABLE_SPAN_BYTES;
            if !map.has_table(at_bytes) {
                at_bytes += table_bytes.min(left_bytes);
                continue;
            }
            let (place, len_bytes) = map.run(at_bytes, left_bytes.min(table_bytes));
            let run = at_bytes..at_bytes + len_bytes;
            at_bytes = run.end;
            match changes.last_mut() {
                _ if place == Place::Base => {}
                Some(last) if last.end == run.start => last.end = run.end,
                _ => changes.push(run),
            }
        }
        changes
    }

    /// Returns the offset in the file at which the last used cluster ends.
    pub(super) fn end_offset(&self) -> u64 {
        self.layers.space.lock().end() * CLUSTER_BYTES
    }

    /// Groups `requests` by the device that performs them. Completes invalid requests with an error.
    fn group(&self, requests: Vec<Request>) -> RequestsByTarget {
        let requests = accepted(requests, |at, len, is_write| {
            if is_write {
                self.layers.check_writable()?;
            }
            check_range(self.size_bytes(), at, len)
        });
        let mut by_target = RequestsByTarget::default();
        for request in requests {
            let (at, len) = (request.offset_bytes(), request.len_bytes());
            let (place, run_bytes) = self.layers.map.read().run(at, len);
            match place {
                Place::File(at_bytes) if run_bytes == len => {
                    let request = request.with_offset(at_bytes).with_error(of_file);
                    by_target.file.push(request);
                }
                Place::Base if run_bytes == len && !request.is_write() => {
                    by_target.base.push(request);
                }
                _ => by_target.threads.push(request),
            }
        }
        by_target
    }

    /// Does the same as [`Layers::runs`], but returns no parts if the range is not inside the disk.
    fn runs(&self, offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = (Place, Range<u64>)> {
        let checked = check_range(self.size_bytes(), offset_bytes, len_bytes);
        let runs = move |()| self.layers.runs(offset_bytes, len_bytes);
        checked.into_iter().flat_map(runs)
    }
}

/// Requests, grouped by the device that performs them.
#[derive(Default)]
struct RequestsByTarget {
    base: Vec<Request>,
    /// Their offsets are offsets in the file.
    file: Vec<Request>,
    threads: Vec<Request>,
}

impl BlockDevice for Overlay {
    fn size_bytes(&self) -> u64 {
        self.layers.size_bytes
    }

    /// Returns the base, which can be remote. The overlay file is always local.
    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.layers.base)
    }

    fn caches_writes(&self) -> bool {
        self.layers.file.caches_writes()
    }

    fn has_late_writes(&self) -> bool {
        self.layers.file.has_late_writes()
    }

    fn is_stored_in(&self, device: u64, ino: u64) -> bool {
        let Layers { base, file, .. } = &*self.layers;
        base.is_stored_in(device, ino) || file.is_stored_in(device, ino)
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.layers.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.layers.read_vectored_at(bufs, offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        let by_target = self.group(requests);
        self.layers.base.submit(by_target.base);
        self.layers.file.submit(by_target.file);
        self.threads.submit(by_target.threads);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        let RequestsByTarget {
            base,
            file,
            threads,
        } = self.group(requests);
        if base.is_empty() && file.is_empty() {
            return self.threads.perform(threads, timeout);
        }
        let others = || {
            self.layers.base.perform(base, timeout)?;
            self.layers.file.perform(file, timeout)
        };
        self.threads.perform_during(threads, timeout, others)
    }

    fn cancel_in_flight(&self) {
        self.threads.cancel_in_flight();
        self.layers.file.cancel_in_flight();
        self.layers.base.cancel_in_flight();
    }

    fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        self.threads.expedite(offset_bytes, len_bytes);
        for (place, range) in self.runs(offset_bytes, len_bytes) {
            let len_bytes = range.end - range.start;
            match place {
                Place::Zero => {}
                Place::Base => self.layers.base.expedite(range.start, len_bytes),
                Place::File(at_bytes) => self.layers.file.expedite(at_bytes, len_bytes),
            }
        }
    }

    fn announce(&self, offset_bytes: u64, len_bytes: u64, priority: Priority) {
        for (place, range) in self.runs(offset_bytes, len_bytes) {
            if place == Place::Base {
                let len_bytes = range.end - range.start;
                self.layers.base.announce(range.start, len_bytes, priority);
            }
        }
    }

    fn unchanged_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        match self.runs(offset_bytes, len_bytes).next() {
            Some((Place::Base, run)) => run.end - run.start,
            _ => 0,
        }
    }

    fn is_writable(&self) -> bool {
        self.layers.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.layers.write_at(buf, offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        self.layers.write_vectored_at(bufs, offset_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.layers.flush()
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        self.layers.discard(offset_bytes, len_bytes)
    }
}

/// The base and the overlay file, accessed by blocking calls.
#[derive(Debug)]
struct Layers {
    size_bytes: u64,
    /// The offset of the refcount blocks in the file.
    refcounts_offset: u64,
    base: Arc<dyn BlockDevice>,
    file: Arc<dyn BlockDevice>,
    map: RwLock<Map>,
    space: Mutex<Space>,
    flushing: Mutex<()>,
    /// The first error of a flush of the file, or of the writes of entries that follow the flush. The content of the
    /// file is then unknown, so nothing more is written.
    failure: OnceLock<Error>,
}

/// A range of the disk that is added to the file, and its place there.
struct Added {
    /// The offset of the range on the disk.
    disk_offset: u64,
    len_bytes: u64,
    /// The offset of the cluster in the file.
    cluster_offset: u64,
    /// Whether the cluster was allocated for this range.
    is_new: bool,
}

impl Added {
    /// Returns the offset of the range in the file.
    fn file_offset(&self) -> u64 {
        self.cluster_offset + self.disk_offset % CLUSTER_BYTES
    }
}

impl Layers {
    /// Writes `bufs` to a range of the disk that is not stored in the file yet. Whole subclusters are added to the file:
    /// the bytes of the first and last subcluster that `bufs` does not cover are copied.
    fn add(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        let len_bytes = gathered_bytes(bufs);
        let end_bytes = offset_bytes + len_bytes;
        let start_bytes = offset_bytes - offset_bytes % SUBCLUSTER_BYTES;
        let head = self.read_padded(start_bytes, offset_bytes)?;
        let tail = self.read_padded(end_bytes, end_bytes.next_multiple_of(SUBCLUSTER_BYTES))?;
        let mut space = self.space.lock();
        // Another thread may have stored a part of the range before `space` was locked. Then what was read may be out of date.
        let (place, run_bytes) = self.map.read().run(offset_bytes, len_bytes);
        if matches!(place, Place::File(_)) || run_bytes < len_bytes {
            drop(space);
            return self.write_vectored_at(bufs, offset_bytes);
        }
        let whole: Vec<IoSlice<'_>> = std::iter::once(IoSlice::new(&head))
            .chain(bufs.iter().map(|buf| IoSlice::new(buf)))
            .chain(std::iter::once(IoSlice::new(&tail)))
            .collect();
        let mut added = Vec::new();
        let stored = self
            .allocate(
                &mut space,
                start_bytes..start_bytes + gathered_bytes(&whole),
                &mut added,
            )
            .and_then(|()| self.write_added(&whole, &added));
        if stored.is_err() {
            for one in added.iter().filter(|one| one.is_new) {
                space.free(one.cluster_offset / CLUSTER_BYTES);
            }
            return stored;
        }
        let mut map = self.map.write();
        for one in &added {
            map.store(one.disk_offset, one.len_bytes, one.cluster_offset);
        }
        Ok(())
    }

    /// Reads a range of the disk inside one subcluster. Bytes past the end of the disk are returned as zeros.
    fn read_padded(&self, start_bytes: u64, end_bytes: u64) -> Result<Vec<u8>> {
        let len = |start: u64, end: u64| usize::try_from(end.saturating_sub(start)).unwrap_or(0);
        let mut bytes = vec![0; len(start_bytes, end_bytes)];
        let inside = len(start_bytes, end_bytes.min(self.size_bytes));
        if inside > 0 {
            self.read_at(&mut bytes[..inside], start_bytes)?;
        }
        Ok(bytes)
    }

    /// Allocates the clusters and tables that are missing for a `range` of the disk. Appends one element for each cluster
    /// of the range to `added`, even if a later allocation fails.
    fn allocate(&self, space: &mut Space, range: Range<u64>, added: &mut Vec<Added>) -> Result<()> {
        let full = || Error::Write {
            offset_bytes: range.start,
            len_bytes: range.end - range.start,
            source: io::Error::new(
                io::ErrorKind::StorageFull,
                "the overlay has no free cluster",
            ),
        };
        let mut at_bytes = range.start;
        while at_bytes < range.end {
            let next_bytes = (at_bytes / CLUSTER_BYTES + 1) * CLUSTER_BYTES;
            let (has_table, cluster) = {
                let map = self.map.read();
                (map.has_table(at_bytes), map.cluster(at_bytes))
            };
            if !has_table {
                let table = space.allocate().ok_or_else(full)?;
                self.map.write().add_table(at_bytes, table * CLUSTER_BYTES);
            }
            let cluster_offset = match cluster {
                Some(cluster_offset) => cluster_offset,
                None => space.allocate().ok_or_else(full)? * CLUSTER_BYTES,
            };
            added.push(Added {
                disk_offset: at_bytes,
                len_bytes: next_bytes.min(range.end) - at_bytes,
                cluster_offset,
                is_new: cluster.is_none(),
            });
            at_bytes = next_bytes;
        }
        Ok(())
    }

    /// Writes `bufs` to the places in `added`. Places that are adjacent in the file are written by one call.
    fn write_added(&self, bufs: &[IoSlice<'_>], added: &[Added]) -> Result<()> {
        let follows = |first: &Added, second: &Added| {
            first.file_offset() + first.len_bytes == second.file_offset()
        };
        let mut skip = 0;
        for run in added.chunk_by(follows) {
            let len_bytes: u64 = run.iter().map(|one| one.len_bytes).sum();
            let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
            let part = part(bufs, skip, len);
            self.file.write_vectored_at(&part, run[0].file_offset())?;
            skip += len;
        }
        Ok(())
    }

    /// Divides a range of the disk into parts, each of which is contiguous in one place. Returns the place and the range of
    /// each part, in order. The range must be inside the disk.
    fn runs(&self, offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = (Place, Range<u64>)> {
        let (mut at_bytes, end_bytes) = (offset_bytes, offset_bytes + len_bytes);
        std::iter::from_fn(move || {
            if at_bytes == end_bytes {
                return None;
            }
            let (place, run_bytes) = self.map.read().run(at_bytes, end_bytes - at_bytes);
            let range = at_bytes..at_bytes + run_bytes;
            at_bytes = range.end;
            Some((place, range))
        })
    }

    /// Returns an error if the file is read-only, or if a flush has failed.
    fn check_writable(&self) -> Result<()> {
        match self.failure.get() {
            _ if !self.is_writable() => Err(Error::ReadOnly),
            Some(error) => Err(error.again()),
            None => Ok(()),
        }
    }

    /// Writes `pieces` to the file concurrently.
    fn write_pieces(&self, pieces: Vec<Piece>) -> Result<()> {
        if pieces.is_empty() {
            return Ok(());
        }
        write_all(&*self.file, pieces)
    }
}

impl BlockDevice for Layers {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.read_vectored_at(&mut [IoSliceMut::new(buf)], offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        let len_bytes = total_bytes(bufs);
        check_range(self.size_bytes, offset_bytes, len_bytes)?;
        for (place, range) in self.runs(offset_bytes, len_bytes) {
            let (skip, len) = indices(&range, offset_bytes);
            let mut part = part_mut(bufs, skip, len);
            match place {
                Place::Zero => clear(&mut part),
                Place::Base => self.base.read_vectored_at(&mut part, range.start)?,
                Place::File(at_bytes) => self
                    .file
                    .read_vectored_at(&mut part, at_bytes)
                    .map_err(of_file)?,
            }
        }
        Ok(())
    }

    fn is_writable(&self) -> bool {
        self.file.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.write_vectored_at(&[IoSlice::new(buf)], offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        self.check_writable()?;
        let len_bytes = gathered_bytes(bufs);
        check_range(self.size_bytes, offset_bytes, len_bytes)?;
        for (place, range) in self.runs(offset_bytes, len_bytes) {
            let (skip, len) = indices(&range, offset_bytes);
            let part = part(bufs, skip, len);
            match place {
                Place::File(at_bytes) => self.file.write_vectored_at(&part, at_bytes)?,
                Place::Base | Place::Zero => self.add(&part, range.start)?,
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        if !self.is_writable() {
            return Ok(());
        }
        let _flushing = self.flushing.lock();
        self.check_writable()?;
        // The entries are collected before the reference counts. Therefore the counts include every cluster to which these
        // entries refer.
        let (dirty, new_tables, links) = {
            let mut map = self.map.write();
            let dirty = map.take_dirty();
            let (new_tables, links) = (map.new_tables(&dirty), map.links(&dirty));
            (dirty, new_tables, links)
        };
        let (sectors, counts) = {
            let mut space = self.space.lock();
            let sectors = space.take_dirty();
            let counts = sectors.iter().map(|&sector| {
                let at_bytes = self.refcounts_offset + sector * SECTOR_BYTES;
                (at_bytes, space.sector(sector))
            });
            let counts: Vec<Piece> = counts.collect();
            (sectors, counts)
        };
        let written = self
            .write_pieces(counts)
            .and_then(|()| self.write_pieces(new_tables));
        if written.is_err() {
            // No entry in the file refers to what was written, so the next flush can write it again.
            self.space.lock().restore_dirty(sectors);
            self.map.write().restore_dirty(dirty);
            return written;
        }
        let flushed = self.file.flush().and_then(|()| {
            if dirty.is_empty() {
                return Ok(());
            }
            self.write_pieces(links)?;
            self.file.flush()
        });
        if let Err(error) = &flushed {
            self.failure.get_or_init(|| error.again());
        }
        flushed
    }

    /// Discards the parts of the range that are stored in the file. Their clusters remain allocated.
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        self.check_writable()?;
        check_range(self.size_bytes, offset_bytes, len_bytes)?;
        let mut has_discarded = true;
        for (place, range) in self.runs(offset_bytes, len_bytes) {
            if let Place::File(at_bytes) = place {
                has_discarded &= self.file.discard(at_bytes, range.end - range.start)?;
            }
        }
        Ok(has_discarded)
    }
}

/// Adds to the text of a read error of the overlay file that the error occurred in the overlay. Otherwise it would
/// appear to be an error of the base. Returns other errors unchanged.
fn of_file(error: Error) -> Error {
    match error {
        Error::Io {
            offset_bytes,
            len_bytes,
            source,
        } => Error::Io {
            offset_bytes,
            len_bytes,
            source: io::Error::new(source.kind(), format!("in the overlay: {source}")),
        },
        error => error,
    }
}

/// Returns the index of `range` in a buffer whose first byte has the offset `start_bytes`, and the length of `range`.
fn indices(range: &Range<u64>, start_bytes: u64) -> (usize, usize) {
    let index = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    (
        index(range.start - start_bytes),
        index(range.end - range.start),
    )
}

/// Compares the reference counts in `file` with the used clusters in `space`. Marks the sectors that differ, so that the next
/// flush writes them.
fn check_refcounts(
    file: &dyn BlockDevice,
    geometry: &Geometry,
    space: &mut Space,
) -> Result<(), OverlayError> {
    let sectors_at_once = READ_BYTES / SECTOR_BYTES;
    let mut sector = 0;
    while sector < space.sectors() {
        let count = sectors_at_once.min(space.sectors() - sector);
        let mut bytes = vec![0; usize::try_from(count * SECTOR_BYTES).unwrap_or(usize::MAX)];
        file.read_at(
            &mut bytes,
            geometry.refcounts_offset() + sector * SECTOR_BYTES,
        )?;
        let sector_len = usize::try_from(SECTOR_BYTES).unwrap_or(usize::MAX);
        for (number, bytes) in (sector..).zip(bytes.chunks(sector_len)) {
            space.check_sector(number, bytes);
        }
        sector += count;
    }
    Ok(())
}
