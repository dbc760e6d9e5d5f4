//! The device of an overlay.
//!
//! # Locking
//! In this order:
//!
//! 1. `flushing` is held during a flush. A second flush waits: what the first one writes may belong to it, too.
//! 2. `space` is held while subclusters are added to the file: two writers of different parts of one subcluster must not
//!    both copy the content of the base. Writes to stored subclusters do not take it.
//! 3. `map` is held briefly, never during I/O.

use super::base::{Base, version};
use super::error::OverlayError;
use super::header::{BYTES_OF_TABLE, CLUSTER_BYTES, Commit, Geometry, Head, SUBCLUSTER_BYTES};
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

/// The largest part of the refcount blocks that is read at once, in bytes.
const READ_BYTES: u64 = 1 << 20;

/// A disk: the content of a base, and the changes in an overlay. It can be written to if the file of the overlay can.
///
/// Offsets in errors of the file are those in the file.
#[derive(Debug)]
pub struct Overlay {
    layers: Arc<Layers>,
    /// Performs requests that neither the base nor the file can perform as they are.
    threads: ThreadedDevice,
}

impl Overlay {
    /// Returns the largest size of the file of an overlay for a disk of `size_bytes`, in bytes, also during a commit.
    ///
    /// # Errors
    /// [`OverlayError::TooLarge`].
    pub fn max_file_bytes(size_bytes: u64) -> Result<u64, OverlayError> {
        Ok(Geometry::new(size_bytes)?.file_bytes())
    }

    /// Writes an overlay on `base` to `file`, without changes. `file` must have [`Overlay::max_file_bytes`], all of which are
    /// zero. It records the `name` of the base for other programs: the path or the URL, without secrets. It also records
    /// its `format` in the terms of qemu, for example `raw`.
    ///
    /// # Errors
    /// [`OverlayError::TooLarge`], or if the base cannot be read, or the file cannot be written.
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
            commit: Commit::None,
        };
        head.create(file)
    }

    /// Returns the record of the base of the overlay in `file`.
    ///
    /// # Errors
    /// If the file is not an overlay, or is damaged.
    pub fn record(file: &dyn BlockDevice) -> Result<Base, OverlayError> {
        Ok(Head::read(file)?.base)
    }

    /// Opens the overlay in `file` on `base`. If `file` can be written to, clusters that were lost at an earlier power loss
    /// are freed.
    ///
    /// # Errors
    /// If the file is not an overlay, or is damaged or truncated, if it belongs to another base, if a commit was interrupted,
    /// or if the file or the base cannot be read.
    pub fn open(
        file: Arc<dyn BlockDevice>,
        base: Arc<dyn BlockDevice>,
    ) -> Result<Self, OverlayError> {
        let head = Head::read(&*file)?;
        match head.commit {
            Commit::None => {}
            Commit::Begun { .. } => return Err(OverlayError::Committing),
            Commit::Complete => return Err(OverlayError::Committed),
        }
        let given = version(&*base).map_err(OverlayError::Base)?;
        if !head.base.is_of(&*base, &given) || head.geometry.size_bytes != base.size_bytes() {
            return Err(OverlayError::OtherBase {
                recorded: head.base,
                given,
            });
        }
        Self::with_head(file, base, &head)
    }

    /// Opens the overlay with this `head`.
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
            refcounts_bytes: geometry.refcounts_bytes(),
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

    /// Returns the ranges of the disk that the overlay has, in bytes and in ascending order. Their content can be equal to
    /// that of the base.
    #[must_use]
    pub fn changes(&self) -> Vec<Range<u64>> {
        let mut changes: Vec<Range<u64>> = Vec::new();
        let map = self.layers.map.read();
        let mut at_bytes = 0;
        while at_bytes < self.layers.size_bytes {
            let left_bytes = self.layers.size_bytes - at_bytes;
            if !map.has_table(at_bytes) {
                at_bytes += (BYTES_OF_TABLE - at_bytes % BYTES_OF_TABLE).min(left_bytes);
                continue;
            }
            let of_table = BYTES_OF_TABLE - at_bytes % BYTES_OF_TABLE;
            let (place, len_bytes) = map.run(at_bytes, left_bytes.min(of_table));
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

    /// Returns the offset in the file of the end of the last cluster that is used.
    pub(super) fn end_bytes(&self) -> u64 {
        self.layers.space.lock().end() * CLUSTER_BYTES
    }

    /// Divides `requests` by the device that performs them. Completes those that are invalid.
    fn divided(&self, requests: Vec<Request>) -> Divided {
        let requests = accepted(requests, |at, len, is_write| {
            if is_write {
                self.layers.check_writable()?;
            }
            check_range(self.size_bytes(), at, len)
        });
        let mut divided = Divided::default();
        for request in requests {
            let (at, len) = (request.offset_bytes(), request.len_bytes());
            let (place, run_bytes) = self.layers.map.read().run(at, len);
            match place {
                Place::File(at_bytes) if run_bytes == len => {
                    let request = request.with_offset(at_bytes).with_error(of_file);
                    divided.file.push(request);
                }
                Place::Base if run_bytes == len && !request.is_write() => {
                    divided.base.push(request);
                }
                _ => divided.threads.push(request),
            }
        }
        divided
    }

    /// Returns the places of the parts of a range, or nothing if the range is not inside the disk.
    fn runs(&self, offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = (Place, Range<u64>)> {
        let checked = check_range(self.size_bytes(), offset_bytes, len_bytes);
        let runs = move |()| self.layers.runs(offset_bytes, len_bytes);
        checked.into_iter().flat_map(runs)
    }
}

/// Requests for each device.
#[derive(Default)]
struct Divided {
    base: Vec<Request>,
    /// With their offsets in the file.
    file: Vec<Request>,
    threads: Vec<Request>,
}

impl BlockDevice for Overlay {
    fn size_bytes(&self) -> u64 {
        self.layers.size_bytes
    }

    /// The base. The file of the overlay is local.
    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.layers.base)
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
        let divided = self.divided(requests);
        self.layers.base.submit(divided.base);
        self.layers.file.submit(divided.file);
        self.threads.submit(divided.threads);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        let Divided {
            base,
            file,
            threads,
        } = self.divided(requests);
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

/// The base and the overlay, with blocking calls only.
#[derive(Debug)]
struct Layers {
    size_bytes: u64,
    /// The offset of the refcount blocks in the file.
    refcounts_bytes: u64,
    base: Arc<dyn BlockDevice>,
    file: Arc<dyn BlockDevice>,
    map: RwLock<Map>,
    space: Mutex<Space>,
    flushing: Mutex<()>,
    /// The first error of a flush of the file, or of the writes that follow it. What the file has is then unknown, so nothing
    /// more is written.
    failure: OnceLock<Error>,
}

/// A range of the disk that is added to the file, and where.
struct Added {
    disk_bytes: u64,
    len_bytes: u64,
    /// The offset of the cluster in the file.
    cluster_bytes: u64,
    /// Whether the cluster is new.
    is_new: bool,
}

impl Added {
    /// Returns the offset of the range in the file.
    fn file_bytes(&self) -> u64 {
        self.cluster_bytes + self.disk_bytes % CLUSTER_BYTES
    }
}

impl Layers {
    /// Writes `bufs` to a range that is not stored, in whole subclusters.
    fn add(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        let len_bytes = gathered_bytes(bufs);
        let mut space = self.space.lock();
        // Another thread may have stored a part in between.
        let (place, run_bytes) = self.map.read().run(offset_bytes, len_bytes);
        if matches!(place, Place::File(_)) || run_bytes < len_bytes {
            drop(space);
            return self.write_vectored_at(bufs, offset_bytes);
        }
        let end_bytes = offset_bytes + len_bytes;
        let start_bytes = offset_bytes - offset_bytes % SUBCLUSTER_BYTES;
        let head = self.copied(start_bytes, offset_bytes)?;
        let tail = self.copied(end_bytes, end_bytes.next_multiple_of(SUBCLUSTER_BYTES))?;
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
                space.free(one.cluster_bytes / CLUSTER_BYTES);
            }
            return stored;
        }
        let mut map = self.map.write();
        for one in &added {
            map.store(one.disk_bytes, one.len_bytes, one.cluster_bytes);
        }
        Ok(())
    }

    /// Returns the content of a range within a subcluster. It is zero after the end of the disk.
    fn copied(&self, start_bytes: u64, end_bytes: u64) -> Result<Vec<u8>> {
        let len = |start: u64, end: u64| usize::try_from(end.saturating_sub(start)).unwrap_or(0);
        let mut bytes = vec![0; len(start_bytes, end_bytes)];
        let inside = len(start_bytes, end_bytes.min(self.size_bytes));
        if inside > 0 {
            self.read_at(&mut bytes[..inside], start_bytes)?;
        }
        Ok(bytes)
    }

    /// Appends the places in the file of a `range` of the disk to `added`, one for each cluster.
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
            let cluster_bytes = match cluster {
                Some(cluster_bytes) => cluster_bytes,
                None => space.allocate().ok_or_else(full)? * CLUSTER_BYTES,
            };
            added.push(Added {
                disk_bytes: at_bytes,
                len_bytes: next_bytes.min(range.end) - at_bytes,
                cluster_bytes,
                is_new: cluster.is_none(),
            });
            at_bytes = next_bytes;
        }
        Ok(())
    }

    /// Writes `bufs` to the places of `added`. Adjacent places are written together.
    fn write_added(&self, bufs: &[IoSlice<'_>], added: &[Added]) -> Result<()> {
        let follows = |first: &Added, second: &Added| {
            first.file_bytes() + first.len_bytes == second.file_bytes()
        };
        let mut skip = 0;
        for run in added.chunk_by(follows) {
            let len_bytes: u64 = run.iter().map(|one| one.len_bytes).sum();
            let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
            let part = part(bufs, skip, len);
            self.file.write_vectored_at(&part, run[0].file_bytes())?;
            skip += len;
        }
        Ok(())
    }

    /// Returns the place and the range of each part of a range that is inside the disk, in order.
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

    /// Checks that the file can be written to, and that no flush has failed.
    fn check_writable(&self) -> Result<()> {
        match self.failure.get() {
            _ if !self.is_writable() => Err(Error::ReadOnly),
            Some(error) => Err(error.again()),
            None => Ok(()),
        }
    }

    /// Writes `pieces` to the file, all at once.
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
        // In this order: the clusters to which the entries refer were allocated before.
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
                let at_bytes = self.refcounts_bytes + sector * SECTOR_BYTES;
                (at_bytes, space.sector(sector))
            });
            let counts: Vec<Piece> = counts.collect();
            (sectors, counts)
        };
        let written = self
            .write_pieces(counts)
            .and_then(|()| self.write_pieces(new_tables));
        if written.is_err() {
            // Nothing refers to what was written.
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

    /// Frees the space of the stored parts of the range. They keep their clusters.
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

/// Returns `error`, which the file of an overlay has returned. If it is an error of a read, its text says that. Without this,
/// the error would seem to be one of the base.
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

/// Returns the index of `range` in the bytes from `start_bytes` on, and its length.
fn indices(range: &Range<u64>, start_bytes: u64) -> (usize, usize) {
    let index = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    (
        index(range.start - start_bytes),
        index(range.end - range.start),
    )
}

/// Compares the reference counts in `file` with the used clusters of `space`.
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
            geometry.refcounts_bytes() + sector * SECTOR_BYTES,
        )?;
        let sector_len = usize::try_from(SECTOR_BYTES).unwrap_or(usize::MAX);
        for (number, bytes) in (sector..).zip(bytes.chunks(sector_len)) {
            space.check_sector(number, bytes);
        }
        sector += count;
    }
    Ok(())
}
