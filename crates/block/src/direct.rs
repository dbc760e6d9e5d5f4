//! A block device that reads and writes a regular file or block device without the kernel's page cache.
//!
//! # Model
//! `O_DIRECT`. Content is cached only by the layers above. The kernel does no readahead, so only the blocks of
//! the requested ranges are read from the storage. Each small read waits for the storage, even if the page cache
//! would have contained the content.
//!
//! # Alignment
//! Direct I/O requires that the position in the file, the length and the address of the memory are multiples
//! of [`ALIGN_BYTES`]. In this module, a *block* is [`ALIGN_BYTES`] long, and starts at a multiple of this length
//! in the file. A *partial request* writes only a part of a block, or touches a block that is only partly on the
//! device.
//!
//! If the blocks of a file system have at least this length, and the file system starts at a multiple of it, reads
//! into the frames of the file system's caches meet these requirements. Requests that do not meet them are copied
//! through aligned memory, the bounce memory:
//! - [`BlockDevice::perform`] and [`BlockDevice::submit`] divide a request into pieces, unless it is partial.
//!   - `perform` first waits for the partial requests, and then once for each batch of pieces. The pieces of a batch
//!     have at most [`BATCH_BYTES`] in total, so little memory is allocated even for a large checkpoint. Each of these
//!     waits has the full timeout.
//!   - `submit` does not wait. The memory for a piece of a submitted read is allocated when the engine starts the
//!     piece. The engine has at most 128 submitted requests in flight, so their pieces take at most about 16 MiB. A
//!     submitted write is copied immediately; no layer above submits writes.
//! - All other requests are copied as a whole: the blocking calls, such as [`BlockDevice::read_at`], and partial
//!   requests. The bounce memory of such a request is as large as all blocks that it touches. A write also needs a
//!   second copy of its own length.
//!
//! A write of only a part of a block first reads all blocks that it touches, except those that are only partly on the
//! device. Threads of the device perform partial requests by blocking calls.
//!
//! If the device begins or ends inside a block, for example because it is a partition, a direct write of this block
//! would also write bytes outside the device. This could undo a change that another program made after the block was
//! read, or extend the file. Therefore, the part of such a block that is on the device is written through the page
//! cache. This changes no other byte.
//!
//! If the device does not begin at a multiple of [`ALIGN_BYTES`], the blocks of the file system are not aligned to the
//! blocks of this module. All content is then copied, and each write first reads the blocks that it touches. Such a
//! partition is faster without direct I/O.
//!
//! # Locking
//! Each block belongs to one of the locks `edges`. A write of partial blocks locks those of its first and its last
//! block while it reads the blocks and writes them back, so that two writers of different parts of one block do not
//! undo each other's writes. A writer locks `edges` in ascending order. Nothing else takes these locks. If the device
//! does not answer such a write, only writes of partial blocks with the same locks wait for it. A write of a whole
//! block and a write of a part of it change the same bytes, so the callers must serialize them.

use crate::buffers::{AlignedBytes, LateBytes, gather, scatter};
use crate::calls::FileCalls;
use crate::engine::{Calls, Engine};
use crate::lock::Access;
use crate::{
    BackEnd, BlockDevice, Error, FileDevice, FileRange, Request, Result, accepted, check_range,
    gathered_bytes, total_bytes, waiting,
};
use parking_lot::{Mutex, MutexGuard};
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The alignment of direct I/O, in bytes. It suffices for devices with logical blocks of up to 4 KiB.
pub(crate) const ALIGN_BYTES: usize = 4096;

/// The maximum size of a piece of a request in bounce memory, in bytes.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// The maximum size of a piece of a request that is passed to [`BlockDevice::submit`], in bytes.
const SUBMITTED_PIECE_BYTES: usize = 128 << 10;

/// The maximum total size of the pieces that [`BlockDevice::perform`] keeps in bounce memory at a time, in bytes.
const BATCH_BYTES: usize = 4 << 20;

/// The number of locks for partial blocks.
const EDGE_LOCKS: usize = 64;

/// A regular file or block device, or a part of one, with `O_DIRECT`.
#[derive(Debug)]
pub struct DirectDevice {
    file: FileDevice,
    unaligned: Arc<UnalignedCalls>,
    /// Performs partial requests by the calls of `unaligned`.
    engine: Engine<UnalignedCalls>,
}

/// Blocking reads and writes of any range of the device, with buffers at any address.
#[derive(Debug)]
struct UnalignedCalls {
    direct: Arc<FileCalls>,
    /// Locked while partial blocks are read and written back. The number of a block in the file, modulo
    /// [`EDGE_LOCKS`], is the index of its lock.
    edges: [Mutex<()>; EDGE_LOCKS],
    /// The blocks that are completely on the device, as a range of the device.
    whole: Range<u64>,
    /// The calls without direct I/O, if the device is writable, and has bytes outside of `whole`.
    buffered: Option<FileCalls>,
}

/// Returns the blocks that are completely on a device of `size_bytes` that begins at `start_bytes` of the file, as a range
/// of the device. If there are none, the range is empty.
fn whole_blocks(start_bytes: u64, size_bytes: u64) -> Range<u64> {
    let block_bytes = ALIGN_BYTES as u64;
    let start = (start_bytes.next_multiple_of(block_bytes) - start_bytes).min(size_bytes);
    let end = size_bytes.saturating_sub((start_bytes + size_bytes) % block_bytes);
    start..end.max(start)
}

impl DirectDevice {
    /// Opens the file or block device at `path` for reading.
    ///
    /// # Errors
    /// The errors of [`FileDevice::open`], and [`Error::Open`] if the file system does not support direct I/O.
    pub fn open(path: &Path, range: FileRange) -> Result<Self> {
        Self::new(FileDevice::open_direct(path, range, Access::Read)?)
    }

    /// Opens the file or block device at `path` for reading and writing, with exclusive access.
    ///
    /// # Errors
    /// As [`DirectDevice::open`] and [`FileDevice::open_writable`].
    pub fn open_writable(path: &Path, range: FileRange) -> Result<Self> {
        Self::new(FileDevice::open_direct(path, range, Access::Write)?)
    }

    fn new(file: FileDevice) -> Result<Self> {
        let size_bytes = file.size_bytes();
        let whole = whole_blocks(file.calls().position_bytes(0), size_bytes);
        let has_buffered = file.is_writable() && whole != (0..size_bytes);
        let unaligned = Arc::new(UnalignedCalls {
            direct: Arc::clone(file.calls()),
            edges: [const { Mutex::new(()) }; EDGE_LOCKS],
            whole,
            buffered: has_buffered.then(|| file.reopen_buffered()).transpose()?,
        });
        Ok(Self {
            engine: Engine::of_threads(Arc::clone(&unaligned)),
            file,
            unaligned,
        })
    }

    /// Makes `back_end` perform requests, as [`FileDevice::with_back_end`] does.
    #[must_use]
    pub fn with_back_end(mut self, back_end: BackEnd) -> Self {
        self.file = self.file.with_back_end(back_end);
        self
    }
}

impl UnalignedCalls {
    /// Returns the offset of a byte in its block. The byte is at `offset_bytes` of the device.
    fn offset_in_block(&self, offset_bytes: u64) -> usize {
        let position_bytes = self.direct.position_bytes(offset_bytes);
        usize::try_from(position_bytes % ALIGN_BYTES as u64).unwrap_or(0)
    }

    /// Reads into `bufs` through aligned memory.
    fn read(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        waiting::check();
        let len = usize::try_from(total_bytes(bufs)).unwrap_or(usize::MAX);
        let offset_in_block = self.offset_in_block(offset_bytes);
        let aligned_len = (offset_in_block + len).next_multiple_of(ALIGN_BYTES);
        let aligned = &mut *AlignedBytes::zeroed(aligned_len, ALIGN_BYTES);
        self.direct
            .read_direct(aligned, offset_in_block, len, offset_bytes)?;
        scatter(&aligned[offset_in_block..offset_in_block + len], bufs, 0);
        Ok(())
    }

    /// Writes `bufs`. Uses aligned memory for blocks that are completely on the device, and the page cache for the rest.
    fn write(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        waiting::check();
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let index_of = |at_bytes: u64| {
            let index = usize::try_from(at_bytes.saturating_sub(offset_bytes));
            index.map_or(bytes.len(), |index| index.min(bytes.len()))
        };
        let whole = index_of(self.whole.start)..index_of(self.whole.end);
        if !whole.is_empty() {
            let at_bytes = offset_bytes + whole.start as u64;
            self.write_through_bounce(&bytes[whole.clone()], at_bytes)?;
        }
        if let Some(buffered) = &self.buffered {
            for part in [0..whole.start, whole.end..bytes.len()] {
                buffered.write_exact(&bytes[part.clone()], offset_bytes + part.start as u64)?;
            }
        }
        Ok(())
    }

    /// Locks the `edges` of the first and the last block of the `len_bytes` at `offset_bytes`.
    fn lock_edges(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let index_of = |at_bytes: u64| {
            let block = self.direct.position_bytes(at_bytes) / ALIGN_BYTES as u64;
            usize::try_from(block % EDGE_LOCKS as u64).unwrap_or(0)
        };
        let first = index_of(offset_bytes);
        let last = index_of(offset_bytes + len_bytes.saturating_sub(1));
        let lower = self.edges[first.min(last)].lock();
        let upper = (first != last).then(|| self.edges[first.max(last)].lock());
        (lower, upper)
    }

    /// Writes `bytes` through aligned memory. All blocks that the write touches must be completely on the device. If
    /// the first or the last block is written only in part, all of these blocks are read first.
    fn write_through_bounce(&self, bytes: &[u8], offset_bytes: u64) -> Result<()> {
        let offset_in_block = self.offset_in_block(offset_bytes);
        let aligned_len = (offset_in_block + bytes.len()).next_multiple_of(ALIGN_BYTES);
        let aligned = &mut *AlignedBytes::zeroed(aligned_len, ALIGN_BYTES);
        let is_whole = offset_in_block == 0 && aligned_len == bytes.len();
        let _edges = (!is_whole).then(|| self.lock_edges(offset_bytes, bytes.len() as u64));
        if !is_whole {
            let len = aligned_len - offset_in_block;
            self.direct
                .read_direct(aligned, offset_in_block, len, offset_bytes)?;
        }
        aligned[offset_in_block..offset_in_block + bytes.len()].copy_from_slice(bytes);
        self.direct
            .write_direct(aligned, offset_in_block, offset_bytes)
    }
}

impl Calls for UnalignedCalls {
    fn perform(&self, request: Request) {
        request.perform(
            |bufs, offset_bytes| self.read(bufs, offset_bytes),
            |bufs, offset_bytes| self.write(bufs, offset_bytes),
        );
    }

    fn position_bytes(&self, offset_bytes: u64) -> u64 {
        self.direct.position_bytes(offset_bytes)
    }
}

/// Requests, grouped by how they are performed.
struct GroupedRequests {
    /// Aligned requests, which direct I/O performs without a copy.
    direct: Vec<Request>,
    /// Requests that direct I/O can perform in aligned memory, in pieces.
    bounced: Vec<Request>,
    /// Partial requests, as defined in the module documentation. The calls of [`UnalignedCalls`] perform them.
    partial: Vec<Request>,
}

impl DirectDevice {
    /// Groups `requests` by how they are performed. Completes a request with an error if it is outside the device, or
    /// if it writes to a device that is open for reading.
    fn group(&self, requests: Vec<Request>) -> GroupedRequests {
        let requests = accepted(requests, |at, len, write| {
            self.file.check_request(at, len, write)
        });
        let mut groups = GroupedRequests {
            direct: Vec::new(),
            bounced: Vec::new(),
            partial: Vec::new(),
        };
        for mut request in requests {
            let requests = if !self.can_bounce(&request) {
                &mut groups.partial
            } else if request.with_slices(
                |bufs| bufs.iter().all(|buf| is_aligned(buf)),
                |bufs| bufs.iter().all(|buf| is_aligned(buf)),
            ) && self.offset_in_block(&request) == 0
            {
                &mut groups.direct
            } else {
                &mut groups.bounced
            };
            requests.push(request);
        }
        groups
    }

    /// Returns the offset of the first byte of `request` in its block.
    fn offset_in_block(&self, request: &Request) -> usize {
        self.unaligned.offset_in_block(request.offset_bytes())
    }

    /// Returns whether `request` is not partial: all blocks that it touches are completely on the device, and if it
    /// is a write, it covers each of them completely.
    fn can_bounce(&self, request: &Request) -> bool {
        let offset_in_block_bytes = self.offset_in_block(request) as u64;
        let (offset_bytes, len_bytes) = (request.offset_bytes(), request.len_bytes());
        let aligned_bytes =
            (offset_in_block_bytes + len_bytes).next_multiple_of(ALIGN_BYTES as u64);
        let is_inside = offset_bytes
            .checked_sub(offset_in_block_bytes)
            .is_some_and(|start_bytes| start_bytes + aligned_bytes <= self.unaligned.whole.end);
        is_inside && (!request.is_write() || aligned_bytes == len_bytes)
    }

    /// Divides the requests `bounced` into pieces of at most `piece_bytes`. The memory of a write is
    /// allocated and filled when the iterator returns the piece. The memory of a read is allocated later.
    fn pieces(&self, bounced: Vec<Request>, piece_bytes: usize) -> impl Iterator<Item = Request> {
        let pieces =
            move |request: Request| pieces(self.offset_in_block(&request), request, piece_bytes);
        bounced.into_iter().flat_map(pieces)
    }
}

/// A request that is performed in pieces, in aligned memory. The request completes when its last piece ends.
struct Bounced {
    /// `None` after the request was completed.
    request: Option<Request>,
    /// The number of pieces that have not succeeded.
    left: usize,
    failure: Option<Error>,
}

impl Drop for Bounced {
    fn drop(&mut self) {
        let result = match self.failure.take() {
            Some(error) => Err(error),
            None if self.left > 0 => Err(Error::Cancelled),
            None => Ok(()),
        };
        if let Some(request) = self.request.take() {
            request.complete(result);
        }
    }
}

/// Returns requests in aligned memory that together perform `request`. Each has at most `piece_bytes`. `offset_in_block` is
/// the offset of the first byte of `request` in its block. A write must have the offset 0, and a multiple of [`ALIGN_BYTES`]
/// as its length.
fn pieces(
    offset_in_block: usize,
    request: Request,
    piece_bytes: usize,
) -> impl Iterator<Item = Request> {
    let len = usize::try_from(request.len_bytes()).unwrap_or(usize::MAX);
    let aligned_len = (offset_in_block + len).next_multiple_of(ALIGN_BYTES);
    let start_bytes = request.offset_bytes() - offset_in_block as u64;
    let (priority, cancel) = (request.priority(), request.cancel_token().cloned());
    let is_write = request.is_write();
    let starts = (0..aligned_len).step_by(piece_bytes);
    let bounced = Arc::new(Mutex::new(Bounced {
        left: starts.len(),
        request: Some(request),
        failure: None,
    }));
    starts.map(move |start| {
        let piece_len = piece_bytes.min(aligned_len - start);
        let offset_bytes = start_bytes + start as u64;
        let of_piece = Arc::clone(&bounced);
        let piece = if is_write {
            let mut bytes = AlignedBytes::zeroed(piece_len, ALIGN_BYTES);
            let mut bounced = bounced.lock();
            let request = bounced.request.as_mut().expect("pieces are left");
            request.with_slices(|_| (), |bufs| gather(bufs, start, &mut bytes));
            Request::write(bytes, offset_bytes, move |_, result| {
                of_piece.lock().end_piece(result, |_| ());
            })
        } else {
            // The first piece begins with the bytes of its block that precede the request. The last piece may end with
            // bytes that follow the request.
            let from = offset_in_block.saturating_sub(start);
            let to = piece_len.min(offset_in_block + len - start);
            let skip = start.saturating_sub(offset_in_block);
            let bytes = LateBytes::new(piece_len, ALIGN_BYTES);
            Request::read(bytes, offset_bytes, move |bytes, result| {
                of_piece.lock().end_piece(result, |request| {
                    request.with_slices(|bufs| scatter(&bytes[from..to], bufs, skip), |_| ());
                });
            })
        };
        let piece = piece.with_priority(priority);
        match &cancel {
            Some(token) => piece.with_cancel(token),
            None => piece,
        }
    })
}

impl Bounced {
    /// Accounts for the end of a piece. After a success, calls `succeeded` with the request.
    fn end_piece(&mut self, result: Result<()>, succeeded: impl FnOnce(&mut Request)) {
        match result {
            Ok(()) => {
                self.left -= 1;
                succeeded(self.request.as_mut().expect("pieces are left"));
            }
            Err(error) => {
                self.failure.get_or_insert(error);
            }
        }
    }
}

/// Calls `perform` with `direct` and `pieces`, in batches. The pieces of a batch have at most [`BATCH_BYTES`]
/// in total. All requests of `direct` are in the first batch. If `perform` fails, drops the remaining pieces,
/// and returns the error.
fn perform_in_batches(
    direct: Vec<Request>,
    mut pieces: impl Iterator<Item = Request>,
    mut perform: impl FnMut(Vec<Request>) -> Result<()>,
) -> Result<()> {
    let mut batch = direct;
    let mut batch_bytes = 0;
    loop {
        // This check precedes the allocation of the next piece.
        if batch_bytes + PIECE_BYTES > BATCH_BYTES {
            perform(std::mem::take(&mut batch))?;
            batch_bytes = 0;
        }
        let Some(piece) = pieces.next() else {
            return perform(batch);
        };
        batch_bytes += usize::try_from(piece.len_bytes()).unwrap_or(PIECE_BYTES);
        batch.push(piece);
    }
}

impl BlockDevice for DirectDevice {
    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn content_version(&self) -> Option<String> {
        self.file.content_version()
    }

    fn is_stored_in(&self, device: u64, ino: u64) -> bool {
        self.file.is_stored_in(device, ino)
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.read_vectored_at(&mut [IoSliceMut::new(buf)], offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes(), offset_bytes, total_bytes(bufs))?;
        if self.unaligned.offset_in_block(offset_bytes) == 0
            && bufs.iter().all(|buf| is_aligned(buf))
        {
            self.file.read_vectored_at(bufs, offset_bytes)
        } else {
            self.unaligned.read(bufs, offset_bytes)
        }
    }

    fn is_writable(&self) -> bool {
        self.file.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.write_vectored_at(&[IoSlice::new(buf)], offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        let len_bytes = gathered_bytes(bufs);
        self.file.check_write(offset_bytes, len_bytes)?;
        if self.unaligned.offset_in_block(offset_bytes) == 0
            && bufs.iter().all(|buf| is_aligned(buf))
        {
            self.file.write_vectored_at(bufs, offset_bytes)
        } else {
            self.unaligned.write(bufs, offset_bytes)
        }
    }

    fn submit(&self, requests: Vec<Request>) {
        let GroupedRequests {
            mut direct,
            bounced,
            partial,
        } = self.group(requests);
        direct.extend(self.pieces(bounced, SUBMITTED_PIECE_BYTES));
        self.file.engine().submit(direct);
        self.engine.submit(partial);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        waiting::check();
        let GroupedRequests {
            direct,
            bounced,
            partial,
        } = self.group(requests);
        self.engine.perform(partial, timeout)?;
        perform_in_batches(direct, self.pieces(bounced, PIECE_BYTES), |batch| {
            self.file.engine().perform(batch, timeout)
        })
    }

    fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        self.file.expedite(offset_bytes, len_bytes);
        self.engine.expedite(offset_bytes, len_bytes);
    }

    fn cancel_in_flight(&self) {
        self.file.cancel_in_flight();
        self.engine.complete_cancelled();
    }

    fn back_end(&self) -> BackEnd {
        self.file.back_end()
    }

    fn flush(&self) -> Result<()> {
        self.file.flush()
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        self.file.discard(offset_bytes, len_bytes)
    }
}

fn is_aligned(buf: &[u8]) -> bool {
    buf.len().is_multiple_of(ALIGN_BYTES) && buf.as_ptr().align_offset(ALIGN_BYTES) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::report_skipped;
    use std::fs::File;
    use std::io::{ErrorKind, Write};
    use std::os::unix::fs::FileExt;
    use std::sync::mpsc::channel;
    use std::thread;

    /// Returns a device whose file is in this crate's folder, or `None` if direct I/O is not supported there.
    /// The default folder for temporary files often does not support it.
    fn device(len: usize, offset_bytes: u64) -> Option<(tempfile::NamedTempFile, DirectDevice)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
        let bytes: Vec<u8> = (0..len).map(byte).collect();
        file.write_all(&bytes).unwrap();
        file.as_file().sync_all().unwrap();
        let range = FileRange {
            offset_bytes,
            size_bytes: None,
        };
        match DirectDevice::open(file.path(), range) {
            Ok(device) => Some((file, device)),
            Err(error) => {
                report_skipped(error);
                None
            }
        }
    }

    fn byte(at: usize) -> u8 {
        u8::try_from(at % 251).unwrap()
    }

    #[test]
    fn direct_read_of_any_range_returns_its_bytes() {
        const LEN: usize = 3 * ALIGN_BYTES + 700;
        for start in [0, 512, 4096] {
            let Some((_file, device)) = device(LEN, start as u64) else {
                return;
            };
            let size = LEN - start;
            assert_eq!(device.size_bytes(), size as u64);
            for (offset, len) in [
                (0, 4096),
                (0, 1),
                (1, 4096),
                (4095, 2),
                (4096, 8192 - start),
                (size - 1, 1),
                (0, size),
                (size, 0),
            ] {
                let mut buf = vec![0; len];
                device.read_at(&mut buf, offset as u64).unwrap();
                let expected: Vec<u8> = (start + offset..start + offset + len).map(byte).collect();
                assert_eq!(buf, expected, "{len} bytes at {offset} from {start}");
            }
            let mut buf = [0; 2];
            assert!(matches!(
                device.read_at(&mut buf, size as u64 - 1),
                Err(Error::OutOfRange { .. })
            ));
        }
    }

    #[test]
    fn direct_write_of_any_range_changes_only_its_bytes() {
        const LEN: usize = 3 * ALIGN_BYTES + 700;
        for start in [0, 512, 4096] {
            let Some((file, device)) = device(LEN, start as u64) else {
                return;
            };
            drop(device);
            let range = FileRange {
                offset_bytes: start as u64,
                size_bytes: None,
            };
            let device = DirectDevice::open_writable(file.path(), range).unwrap();
            let size = LEN - start;
            let mut expected: Vec<u8> = (0..LEN).map(byte).collect();
            for (mark, (offset, len)) in (1..).zip([
                (0, 4096),
                (0, 1),
                (1, 4096),
                (4095, 2),
                (4096, 8192 - start),
                (size - 1, 1),
                (size - 700, 3),
                (100, size - 200),
                (0, size),
                (size, 0),
            ]) {
                device.write_at(&vec![mark; len], offset as u64).unwrap();
                expected[start + offset..start + offset + len].fill(mark);
                let shown = format!("{len} bytes at {offset} from {start}");
                assert!(std::fs::read(file.path()).unwrap() == expected, "{shown}");
                let mut buf = vec![0; len];
                device.read_at(&mut buf, offset as u64).unwrap();
                assert!(buf == vec![mark; len], "{shown}, read back");
            }
            device.flush().unwrap();
            assert!(matches!(
                device.write_at(&[1; 2], size as u64 - 1),
                Err(Error::OutOfRange { .. })
            ));
        }
    }

    #[test]
    fn writes_of_another_program_next_to_the_device_are_kept() {
        const BESIDE: usize = 512;
        const SIZE: usize = 2 * ALIGN_BYTES;
        let Some((file, device)) = device(3 * ALIGN_BYTES, 0) else {
            return;
        };
        drop(device);
        // The first and the last block of the device also contain bytes of its neighbours.
        let range = FileRange {
            offset_bytes: BESIDE as u64,
            size_bytes: Some(SIZE as u64),
        };
        let device = DirectDevice::open_writable(file.path(), range).unwrap();
        let neighbours = [0, (BESIDE + SIZE) as u64];
        let other = File::options()
            .read(true)
            .write(true)
            .open(file.path())
            .unwrap();
        let mut written = [0; BESIDE];
        for at_bytes in neighbours {
            other.write_all_at(&written, at_bytes).unwrap();
        }
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..200 {
                    for at in [0, SIZE - 1000] {
                        device.write_at(&[round; 1000], at as u64).unwrap();
                    }
                }
            });
            while !writer.is_finished() {
                for at_bytes in neighbours {
                    let mut found = [0; BESIDE];
                    other.read_exact_at(&mut found, at_bytes).unwrap();
                    assert_eq!(found, written, "at {at_bytes}");
                }
                written = written.map(|byte: u8| byte.wrapping_add(1));
                for at_bytes in neighbours {
                    other.write_all_at(&written, at_bytes).unwrap();
                }
            }
        });
        let mut found = [0; SIZE];
        device.read_at(&mut found, 0).unwrap();
        assert!(found[..1000] == [199; 1000] && found[SIZE - 1000..] == [199; 1000]);
    }

    #[test]
    fn write_of_a_partial_block_to_a_silent_device_can_time_out() {
        let Some((file, device)) = device(2 * ALIGN_BYTES, 0) else {
            return;
        };
        drop(device);
        let device = DirectDevice::open_writable(file.path(), FileRange::default()).unwrap();
        let (sender, receiver) = channel();
        let write = |at: u8| {
            let done = sender.clone();
            Request::write(vec![at + 100; 1], at.into(), move |_, result| {
                done.send((at, result)).unwrap();
            })
        };
        // A thread that writes a part of the first block waits, as for a device that does not answer.
        let silent = device.unaligned.edges[0].lock();
        device.submit(vec![write(1)]);
        let performed = device.perform(vec![write(2)], Some(Duration::from_millis(1)));
        assert!(
            matches!(performed, Err(Error::Deadline(_))),
            "{performed:?}"
        );
        // Other blocks are not affected.
        device.write_at(&[7], ALIGN_BYTES as u64).unwrap();
        drop(silent);
        for (at, result) in receiver.iter().take(2) {
            match result {
                Ok(()) => {
                    let mut byte = [0];
                    device.read_at(&mut byte, at.into()).unwrap();
                    assert_eq!(byte, [at + 100]);
                }
                // The write was not started within the timeout.
                Err(Error::Cancelled) if at == 2 => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn direct_device_opened_for_reading_refuses_writes() {
        let Some((_file, device)) = device(ALIGN_BYTES, 0) else {
            return;
        };
        assert!(!device.is_writable());
        assert!(matches!(device.write_at(&[1], 0), Err(Error::ReadOnly)));
    }

    #[test]
    fn aligned_buffers_are_filled_in_order() {
        let Some((_file, device)) = device(4 * ALIGN_BYTES, 0) else {
            return;
        };
        let mut memory = vec![0; 3 * ALIGN_BYTES];
        let start = memory.as_ptr().align_offset(ALIGN_BYTES);
        let (one, other) = memory[start..start + 2 * ALIGN_BYTES].split_at_mut(ALIGN_BYTES);
        assert!(is_aligned(one) && is_aligned(other));
        let mut bufs = [IoSliceMut::new(other), IoSliceMut::new(one)];
        device.read_vectored_at(&mut bufs, 4096).unwrap();
        assert_eq!((other[0], one[0]), (byte(4096), byte(8192)));
    }

    #[test]
    fn direct_read_of_truncated_file_fails() {
        let Some((file, device)) = device(2 * ALIGN_BYTES, 0) else {
            return;
        };
        file.as_file().set_len(100).unwrap();
        let mut buf = [0; 100];
        device.read_at(&mut buf, 0).unwrap();
        assert!(matches!(device.read_at(&mut buf, 1), Err(Error::Io { .. })));
    }

    #[test]
    fn read_that_ends_inside_a_block_is_not_continued_at_an_unaligned_position() {
        const LEN: usize = 3 * ALIGN_BYTES;
        for back_end in [BackEnd::IoUring, BackEnd::Threads] {
            let Some((file, device)) = device(LEN, 0) else {
                return;
            };
            let device = device.with_back_end(back_end);
            if device.back_end() != back_end {
                report_skipped(format!("{back_end} is not available"));
                continue;
            }
            file.as_file().set_len(ALIGN_BYTES as u64 + 100).unwrap();
            let (sender, receiver) = channel();
            // The memory is aligned, so the request is not performed in bounce memory.
            let read = || {
                let (bytes, done) = (AlignedBytes::zeroed(LEN, ALIGN_BYTES), sender.clone());
                Request::read(bytes, 0, move |_, result| done.send(result).unwrap())
            };
            // A single request without a timeout is a blocking call.
            device.perform(vec![read()], None).unwrap();
            device.perform(vec![read(), read()], None).unwrap();
            device.submit(vec![read()]);
            for result in receiver.iter().take(4) {
                let Err(Error::Io { source, .. }) = &result else {
                    panic!("{result:?}");
                };
                // An unaligned read fails with another error.
                assert_eq!(source.kind(), ErrorKind::UnexpectedEof, "{source}");
            }
        }
    }

    #[test]
    fn bounce_memory_of_large_writes_is_bounded() {
        let (sender, receiver) = channel();
        let lens = [
            ALIGN_BYTES,
            3 * BATCH_BYTES,
            PIECE_BYTES + ALIGN_BYTES,
            ALIGN_BYTES,
        ];
        let writes = lens.map(|len| {
            let done = sender.clone();
            let bytes: Vec<u8> = (0..len).map(byte).collect();
            Request::write(bytes, 0, move |_, result| done.send((len, result)).unwrap())
        });
        let mut batches = Vec::new();
        let pieces = writes
            .into_iter()
            .flat_map(|write| pieces(0, write, PIECE_BYTES));
        perform_in_batches(Vec::new(), pieces, |batch| {
            let lens = batch.into_iter().map(|piece| {
                let len_bytes = piece.len_bytes();
                piece.complete(Ok(()));
                len_bytes
            });
            batches.push(lens.sum::<u64>());
            Ok(())
        })
        .unwrap();
        assert_eq!(
            batches.iter().sum::<u64>(),
            lens.iter().map(|len| *len as u64).sum()
        );
        assert!(
            batches.iter().all(|bytes| *bytes <= BATCH_BYTES as u64),
            "{batches:?}"
        );
        for len in lens {
            let (completed, result) = receiver.try_recv().unwrap();
            result.unwrap();
            assert_eq!(completed, len);
        }
    }

    #[test]
    fn request_with_unperformed_pieces_fails() {
        let (sender, receiver) = channel();
        let write = Request::write(vec![0; 3 * BATCH_BYTES], 0, move |_, result| {
            sender.send(result).unwrap();
        });
        let mut has_ended = false;
        let pieces = pieces(0, write, PIECE_BYTES);
        let performed = perform_in_batches(Vec::new(), pieces, |batch| {
            for piece in batch {
                piece.complete(Ok(()));
            }
            let result = if has_ended {
                Err(Error::ReadOnly)
            } else {
                Ok(())
            };
            has_ended = true;
            result
        });
        performed.unwrap_err();
        let result = receiver.try_recv().unwrap();
        assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    }

    #[test]
    fn requests_in_pieces_transfer_every_byte() {
        const LEN: usize = 2 * BATCH_BYTES + 700;
        for start in [0, 512] {
            let Some((file, device)) = device(LEN, start as u64) else {
                return;
            };
            drop(device);
            let range = FileRange {
                offset_bytes: start as u64,
                size_bytes: None,
            };
            let device = DirectDevice::open_writable(file.path(), range).unwrap();
            // The first block that starts on the device.
            let first = ALIGN_BYTES - start;
            let len = BATCH_BYTES + PIECE_BYTES + ALIGN_BYTES;
            let content: Vec<u8> = (0..len).map(|at| byte(at + 77)).collect();
            let (sender, receiver) = channel();
            let done = sender.clone();
            let write = Request::write(content.clone(), first as u64, move |_, result| {
                done.send((0, Vec::new(), result)).unwrap();
            });
            device.perform(vec![write], None).unwrap();
            receiver.try_recv().unwrap().2.unwrap();
            let ranges = [(0, len), (1, 100), (700, PIECE_BYTES), (4095, len - 4100)];
            for (at, len) in ranges {
                let read = || {
                    let done = sender.clone();
                    Request::read(vec![0; len], (first + at) as u64, move |bytes, result| {
                        done.send((at, bytes, result)).unwrap();
                    })
                };
                assert!(device.can_bounce(&read()));
                device.perform(vec![read()], None).unwrap();
                device.submit(vec![read()]);
            }
            drop(sender);
            let reads: Vec<_> = receiver.iter().collect();
            // The request that is passed to `can_bounce` is dropped, so it completes with an error.
            assert_eq!(reads.len(), 3 * ranges.len());
            let whole = reads.into_iter().filter(|(.., result)| result.is_ok());
            let checked = whole.map(|(at, bytes, _)| {
                assert!(
                    bytes == content[at..at + bytes.len()],
                    "at {at} from {start}"
                );
            });
            assert_eq!(checked.count(), 2 * ranges.len());
        }
    }
}
