//! A regular file or block device as a device. Reads and writes bypass the kernel's page cache.
//!
//! # Model
//! `O_DIRECT`. Content is cached by the layers above, and nowhere else. The kernel does no readahead, so only
//! the blocks of the requested ranges are read from the storage. Each small read waits for the storage, even
//! where the page cache would have had the content.
//!
//! # Alignment
//! Direct I/O requires that the position in the file, the length and the address of the memory are multiples
//! of [`ALIGN_BYTES`]. In this module, a *block* has this length and starts at such a position. If a file
//! system has blocks of this size or more, and starts at such a position, reads into the frames of its caches
//! meet these requirements. Requests that do not meet them are copied through aligned memory, the bounce
//! memory:
//! - [`BlockDevice::perform`] and [`BlockDevice::submit`] divide a request into pieces, unless it writes a
//!   block in part, or touches a block that is only partly on the device. `perform` first waits for those other
//!   requests, and then once for each batch of pieces. The pieces of a batch have at most [`BATCH_BYTES`], so little
//!   memory is allocated even for a large checkpoint. Each of these waits has the full timeout. `submit` does not wait.
//!   The memory for a piece of a submitted read is allocated when the engine starts the piece. The engine has at most 128
//!   submitted requests in flight, so they take about 16 MiB at most. A submitted write is copied at once; no layer above
//!   submits writes.
//! - All other such requests, for example those of [`BlockDevice::read_at`], are copied as a whole. Their
//!   bounce memory is as large as all blocks that they touch.
//!
//! If a request writes a block in part, its blocks are read first. Threads of the device make the blocking calls for
//! such requests, and for those that touch a block that is only partly on the device.
//!
//! If the device begins or ends inside a block, for example because it is a partition, direct I/O would also write the
//! bytes of this block that do not belong to the device: another program can have changed them in between, and the file
//! could be extended. Therefore writes to the part of such a block that is on the device use the page cache, and change
//! no other byte.
//!
//! If the device does not begin at a multiple of [`ALIGN_BYTES`], no block of the file system is a block in this sense:
//! all content is copied, and each write reads first. A partition is then faster without direct I/O.
//!
//! # Locking
//! `edges` is locked while partial blocks are read and written back, so that two writers of different parts
//! of one block do not undo each other's writes. Nothing else takes the lock. A write of a whole block and a
//! write of a part of it change the same bytes, so the callers must serialize them.

use crate::buffers::{AlignedBytes, LateBytes, scatter};
use crate::calls::FileCalls;
use crate::engine::{Calls, Engine};
use crate::lock::Access;
use crate::{
    BackEnd, BlockDevice, Error, FileDevice, FileRange, Request, Result, accepted, check_range,
    gathered_bytes, total_bytes, waiting,
};
use parking_lot::Mutex;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The alignment of direct I/O, in bytes. It suffices for devices with logical blocks of up to 4 KiB.
pub(crate) const ALIGN_BYTES: usize = 4096;

/// The maximum size of a piece of a request in bounce memory, in bytes.
const PIECE_BYTES: usize = 1 << 20;

/// The same for a request that is passed to [`BlockDevice::submit`].
const SUBMITTED_PIECE_BYTES: usize = 128 << 10;

/// The maximum size of the pieces that [`BlockDevice::perform`] has in bounce memory at a time, in bytes.
const BATCH_BYTES: usize = 4 << 20;

/// A regular file or block device, or a part of one, with `O_DIRECT`.
#[derive(Debug)]
pub struct DirectDevice {
    file: FileDevice,
    unaligned: Arc<UnalignedCalls>,
    /// Performs requests by the calls of `unaligned`.
    engine: Engine<UnalignedCalls>,
}

/// Blocking reads and writes of any range of the device, with buffers at any address.
#[derive(Debug)]
struct UnalignedCalls {
    direct: Arc<FileCalls>,
    /// Locked while partial blocks are read and written back.
    edges: Mutex<()>,
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
    /// As [`FileDevice::open`]; also [`Error::Open`] if the file system does not support
    /// direct I/O.
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
            edges: Mutex::new(()),
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
    /// Returns the number of bytes in the block of the byte at `offset_bytes` that precede this byte.
    fn ahead(&self, offset_bytes: u64) -> usize {
        let position_bytes = self.direct.position_bytes(offset_bytes);
        usize::try_from(position_bytes % ALIGN_BYTES as u64).unwrap_or(0)
    }

    /// Fills `bufs` through aligned memory.
    fn read(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        waiting::check();
        let len = usize::try_from(total_bytes(bufs)).unwrap_or(usize::MAX);
        let ahead = self.ahead(offset_bytes);
        let aligned_len = (ahead + len).next_multiple_of(ALIGN_BYTES);
        let aligned = &mut *AlignedBytes::zeroed(aligned_len, ALIGN_BYTES);
        self.direct.read_direct(aligned, ahead, len, offset_bytes)?;
        scatter(&aligned[ahead..ahead + len], bufs, 0);
        Ok(())
    }

    /// Writes `bufs`: the part in blocks that are completely on the device through aligned memory, and the rest through
    /// the page cache.
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
            self.write_around(&bytes[whole.clone()], at_bytes)?;
        }
        if let Some(buffered) = &self.buffered {
            for part in [0..whole.start, whole.end..bytes.len()] {
                buffered.write_exact(&bytes[part.clone()], offset_bytes + part.start as u64)?;
            }
        }
        Ok(())
    }

    /// Writes `bytes`, whose blocks must be completely on the device, through aligned memory. If the first or the
    /// last block is written in part, all blocks are read first.
    fn write_around(&self, bytes: &[u8], offset_bytes: u64) -> Result<()> {
        let ahead = self.ahead(offset_bytes);
        let aligned_len = (ahead + bytes.len()).next_multiple_of(ALIGN_BYTES);
        let aligned = &mut *AlignedBytes::zeroed(aligned_len, ALIGN_BYTES);
        let is_whole = ahead == 0 && aligned_len == bytes.len();
        let _edges = (!is_whole).then(|| self.edges.lock());
        if !is_whole {
            let len = aligned_len - ahead;
            self.direct.read_direct(aligned, ahead, len, offset_bytes)?;
        }
        aligned[ahead..ahead + bytes.len()].copy_from_slice(bytes);
        self.direct.write_direct(aligned, ahead, offset_bytes)
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

/// Requests, divided by how they are performed.
struct Divided {
    /// Aligned requests, which direct I/O performs without a copy.
    direct: Vec<Request>,
    /// Requests that direct I/O can perform in aligned memory, in pieces.
    bounced: Vec<Request>,
    /// Writes of partial blocks, and requests for a block that is only partly on the device. They are
    /// performed by the calls of [`UnalignedCalls`].
    others: Vec<Request>,
}

impl DirectDevice {
    /// Divides `requests`. Those that are outside the device, or that write to a device that is open for
    /// reading, are completed with an error instead.
    fn divide(&self, requests: Vec<Request>) -> Divided {
        let requests = accepted(requests, |at, len, write| {
            self.file.check_request(at, len, write)
        });
        let mut divided = Divided {
            direct: Vec::new(),
            bounced: Vec::new(),
            others: Vec::new(),
        };
        for mut request in requests {
            let requests = if !self.can_bounce(&request) {
                &mut divided.others
            } else if request.with_slices(
                |bufs| bufs.iter().all(|buf| is_aligned(buf)),
                |bufs| bufs.iter().all(|buf| is_aligned(buf)),
            ) && self.ahead(&request) == 0
            {
                &mut divided.direct
            } else {
                &mut divided.bounced
            };
            requests.push(request);
        }
        divided
    }

    /// Returns the number of bytes in the first block of `request` that precede `request`.
    fn ahead(&self, request: &Request) -> usize {
        self.unaligned.ahead(request.offset_bytes())
    }

    /// Returns whether all blocks that `request` touches are completely on the device. If it is a write, it must
    /// also cover each of them completely.
    fn can_bounce(&self, request: &Request) -> bool {
        let ahead_bytes = self.ahead(request) as u64;
        let (offset_bytes, len_bytes) = (request.offset_bytes(), request.len_bytes());
        let aligned_bytes = (ahead_bytes + len_bytes).next_multiple_of(ALIGN_BYTES as u64);
        let is_inside = offset_bytes
            .checked_sub(ahead_bytes)
            .is_some_and(|start_bytes| start_bytes + aligned_bytes <= self.unaligned.whole.end);
        is_inside && (!request.is_write() || aligned_bytes == len_bytes)
    }

    /// Returns the pieces of the requests `bounced`, each of at most `piece_bytes`. The memory of a write is
    /// allocated and filled when the iterator returns the piece. The memory of a read is allocated later.
    fn pieces(&self, bounced: Vec<Request>, piece_bytes: usize) -> impl Iterator<Item = Request> {
        let pieces = move |request: Request| pieces(self.ahead(&request), request, piece_bytes);
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

/// Returns requests in aligned memory that together perform `request`, each of at most `piece_bytes`. The first byte
/// of `request` has the index `ahead` in its block. For a write, `ahead` is 0, and the length is a multiple of
/// [`ALIGN_BYTES`].
fn pieces(ahead: usize, request: Request, piece_bytes: usize) -> impl Iterator<Item = Request> {
    let len = usize::try_from(request.len_bytes()).unwrap_or(usize::MAX);
    let aligned_len = (ahead + len).next_multiple_of(ALIGN_BYTES);
    let start_bytes = request.offset_bytes() - ahead as u64;
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
            // The first piece contains the bytes ahead, and the last may contain bytes after the request.
            let from = ahead.saturating_sub(start);
            let to = piece_len.min(ahead + len - start);
            let skip = start.saturating_sub(ahead);
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

/// Fills `bytes` from `bufs`, in order. Skips the first `skip` bytes of `bufs`.
fn gather(bufs: &[IoSlice<'_>], mut skip: usize, mut bytes: &mut [u8]) {
    for buf in bufs {
        let skipped = skip.min(buf.len());
        skip -= skipped;
        let len = bytes.len().min(buf.len() - skipped);
        let (part, rest) = bytes.split_at_mut(len);
        part.copy_from_slice(&buf[skipped..skipped + len]);
        bytes = rest;
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
        if self.unaligned.ahead(offset_bytes) == 0 && bufs.iter().all(|buf| is_aligned(buf)) {
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
        if self.unaligned.ahead(offset_bytes) == 0 && bufs.iter().all(|buf| is_aligned(buf)) {
            self.file.write_vectored_at(bufs, offset_bytes)
        } else {
            self.unaligned.write(bufs, offset_bytes)
        }
    }

    fn submit(&self, requests: Vec<Request>) {
        let Divided {
            mut direct,
            bounced,
            others,
        } = self.divide(requests);
        direct.extend(self.pieces(bounced, SUBMITTED_PIECE_BYTES));
        self.file.engine().submit(direct);
        self.engine.submit(others);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        waiting::check();
        let Divided {
            direct,
            bounced,
            others,
        } = self.divide(requests);
        self.engine.perform(others, timeout)?;
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
    use std::io::Write;
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
        let Some((file, device)) = device(ALIGN_BYTES, 0) else {
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
        // A thread that needs this lock waits, as for a device that does not answer.
        let silent = device.unaligned.edges.lock();
        device.submit(vec![write(1)]);
        let performed = device.perform(vec![write(2)], Some(Duration::from_millis(1)));
        assert!(
            matches!(performed, Err(Error::Deadline(_))),
            "{performed:?}"
        );
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
