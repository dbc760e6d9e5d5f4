//! The interface of all devices.

use crate::buffers::{ReadBuffers, WriteBuffers, gathered_bytes, total_bytes};
use crate::request::Countdown;
use crate::{BackEnd, Error, Priority, Request, Result, ServerCounts};
use parking_lot::Mutex;
use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An array of bytes that threads can share, and that may be writable.
///
/// Two reads of the same range must return the same bytes unless the range was written in between:
/// the caches above assume that only they write.
///
/// Written bytes can be read back at once. They are durable after a later [`flush`](BlockDevice::flush) has
/// succeeded, which must begin after the write has returned. If power is lost during a write, any of its
/// 512-byte sectors may have been written. Writes between two flushes may become durable in any order.
pub trait BlockDevice: Debug + Send + Sync {
    /// Returns the size in bytes.
    fn size_bytes(&self) -> u64;

    /// Returns the inner device, if this device passes its requests to one. By default, calls that query or advise the
    /// device (from [`timeout`](BlockDevice::timeout) to [`is_stored_in`](BlockDevice::is_stored_in)) are forwarded to
    /// it. Other calls are not forwarded. A device whose bytes are at other offsets than in the inner device must
    /// translate [`expedite`](BlockDevice::expedite), [`announce`](BlockDevice::announce) and
    /// [`pieces`](BlockDevice::pieces).
    fn inner(&self) -> Option<&dyn BlockDevice> {
        None
    }

    /// Fills `buf` with the bytes at `offset_bytes`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the range is not inside the device, [`Error::Io`] if the device
    /// fails. The content of `buf` is then unspecified.
    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()>;

    /// Fills `bufs`, in order, with the bytes at `offset_bytes`. This is one device read if the
    /// device supports vectored reads.
    ///
    /// # Errors
    /// As [`BlockDevice::read_at`].
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes(), offset_bytes, total_bytes(bufs))?;
        let mut at_bytes = offset_bytes;
        for buf in bufs {
            self.read_at(buf, at_bytes)?;
            at_bytes += buf.len() as u64;
        }
        Ok(())
    }

    /// Starts `requests` and returns. Each request completes exactly once, in any order, and possibly before
    /// this method returns. A failed request completes with the error that the corresponding blocking call
    /// would return.
    ///
    /// The default implementation performs the requests one after the other, and returns when all are
    /// complete.
    fn submit(&self, requests: Vec<Request>) {
        perform_blocking(self, requests);
    }

    /// Performs `requests` and returns when all are complete. If none of them completes for `timeout`,
    /// returns an error. Requests that the device has not started are then cancelled, if possible. Requests
    /// in flight complete later, if at all.
    ///
    /// The default implementation submits the requests and waits. If [`BlockDevice::submit`] itself performs
    /// the requests, the timeout has no effect.
    ///
    /// # Errors
    /// [`Error::Deadline`], [`Error::Wait`]. The result of each request is not returned here, but passed to
    /// the `done` of that request.
    fn perform(&self, mut requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        let countdown = Countdown::of(&mut requests);
        self.submit(requests);
        countdown.wait(timeout)
    }

    /// Returns the time after which a thread stops waiting for the device, or `None` if threads wait for
    /// ever. The layers above use it for their own waits.
    fn timeout(&self) -> Option<Duration> {
        self.inner()?.timeout()
    }

    /// Returns the time at which a wait that begins now must end, or `None` if [`BlockDevice::timeout`] sets
    /// no limit.
    fn deadline(&self) -> Option<Instant> {
        Instant::now().checked_add(self.timeout()?)
    }

    /// Raises the priority of requests for these bytes to [`Priority::Demand`], because a
    /// thread now waits for them. Has no effect on requests that the device has started.
    ///
    /// Without an inner device, the default implementation does nothing. A device that keeps submitted requests in a queue
    /// of its own must override it. [`FileDevice`](crate::FileDevice), [`DirectDevice`](crate::DirectDevice) and
    /// [`ThreadedDevice`](crate::ThreadedDevice) start a submitted request at once, unless 128 others are in flight with
    /// `io_uring`, or 8 with threads. Only then do requests wait. Demand requests cannot delay background requests for
    /// ever: one background request is started after at most 16 demand requests.
    fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        if let Some(inner) = self.inner() {
            inner.expedite(offset_bytes, len_bytes);
        }
    }

    /// Announces that requests for all of these bytes follow at once, with `priority`. A device that fetches data
    /// from a server can then fetch them together, although each request is short.
    ///
    /// Without an inner device, the default implementation does nothing.
    fn announce(&self, offset_bytes: u64, len_bytes: u64, priority: Priority) {
        if let Some(inner) = self.inner() {
            inner.announce(offset_bytes, len_bytes, priority);
        }
    }

    /// Completes requests early, with [`Error::Cancelled`]: those that wait for a server, and those that the device has
    /// not started and whose [token](crate::CancelToken) was cancelled. A volume calls this at its end, when no thread needs its
    /// requests. If other users of the device have requests that wait for a server, these are cancelled, too.
    ///
    /// Without an inner device, the default implementation does nothing. A device that keeps submitted requests in a queue
    /// of its own must override it. A request for a file that is in flight completes normally, because the kernel may
    /// still write to its buffers.
    fn cancel_in_flight(&self) {
        if let Some(inner) = self.inner() {
            inner.cancel_in_flight();
        }
    }

    /// Returns the pieces of the device, if the device receives long reads in pieces, for example from a server.
    /// Requests that end at the end of a piece complete earlier than longer ones. Callers divide a long read at the
    /// ends of pieces, and [announce](BlockDevice::announce) it first.
    fn pieces(&self) -> Option<Pieces> {
        self.inner()?.pieces()
    }

    /// Returns the length of a window of readahead that keeps the device busy, in bytes, if the device measures it.
    /// Longer windows only delay other reads. The length changes with each measurement.
    fn window_bytes(&self) -> Option<u64> {
        self.inner()?.window_bytes()
    }

    /// Returns how [`BlockDevice::submit`] and [`BlockDevice::perform`] perform requests.
    fn back_end(&self) -> BackEnd {
        self.inner().map_or(BackEnd::Calls, BlockDevice::back_end)
    }

    /// Returns whether data should be read before it is requested. Returns false if the device knows better what
    /// will be needed, or records what is needed.
    fn wants_readahead(&self) -> bool {
        self.inner().is_none_or(BlockDevice::wants_readahead)
    }

    /// Returns what the device has read from a server, or `None` if it is local.
    fn server_counts(&self) -> Option<ServerCounts> {
        self.inner()?.server_counts()
    }

    /// Returns a text that changes when the content changes between two openings of the device, or `None` if the device
    /// cannot know. For example, it contains the time of modification of a file.
    fn content_version(&self) -> Option<String> {
        self.inner()?.content_version()
    }

    /// Returns whether blocking writes only copy to the page cache of the host. Such a call takes less time than a
    /// request, but has no time limit.
    fn caches_writes(&self) -> bool {
        self.inner().is_some_and(BlockDevice::caches_writes)
    }

    /// Returns whether a write that timed out can still be in flight, so that the device may perform it later.
    fn has_late_writes(&self) -> bool {
        self.inner().is_some_and(BlockDevice::has_late_writes)
    }

    /// Returns whether the file of this host with the device number `device` and the inode number `ino` stores bytes of
    /// the device.
    fn is_stored_in(&self, device: u64, ino: u64) -> bool {
        self.inner()
            .is_some_and(|inner| inner.is_stored_in(device, ino))
    }

    /// Returns the number of bytes, starting at `offset_bytes` and at most `len_bytes`, that this overlay has never
    /// changed. These bytes equal those of its base. Returns 0 if the first byte may have changed, or if this device is
    /// not an overlay.
    ///
    /// The default implementation returns 0, and does not forward the call. A device that is opened on an overlay forwards
    /// it if the bytes are the same.
    fn unchanged_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        let _ = (offset_bytes, len_bytes);
        0
    }

    /// Returns true if the device can be written to. If not, every write fails.
    fn is_writable(&self) -> bool {
        false
    }

    /// Writes `buf` at `offset_bytes`.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::OutOfRange`], or [`Error::Write`] if the device fails. Any
    /// part of the range may then have been written.
    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        let _ = (buf, offset_bytes);
        Err(Error::ReadOnly)
    }

    /// Writes `bufs`, in order, at `offset_bytes`. This is one device write if the device supports
    /// vectored writes.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes(), offset_bytes, gathered_bytes(bufs))?;
        let mut at_bytes = offset_bytes;
        for buf in bufs {
            self.write_at(buf, at_bytes)?;
            at_bytes += buf.len() as u64;
        }
        Ok(())
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// [`Error::Flush`]. It is then unknown which writes are durable.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Discards `len_bytes` at `offset_bytes`. The content of the range is unspecified until it is
    /// written again. Returns false if the device does not support this.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        let _ = (offset_bytes, len_bytes);
        Ok(false)
    }
}

/// The pieces in which a device receives long reads. All pieces have the same length, but the first one can begin
/// before the device, and the last one can end after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    len_bytes: NonZeroU64,
    /// The number of bytes of the first piece that precede the device.
    before_bytes: u64,
}

impl Pieces {
    /// Creates pieces of `len_bytes` for a device that begins at `start_bytes` of a larger range, which the pieces
    /// divide. For example, the device is a partition, and the pieces divide the whole disk.
    #[must_use]
    pub fn new(len_bytes: NonZeroU64, start_bytes: u64) -> Self {
        Self {
            len_bytes,
            before_bytes: start_bytes % len_bytes,
        }
    }

    /// Returns the pieces of the part of the device that begins at `start_bytes`.
    #[must_use]
    pub fn of_part(self, start_bytes: u64) -> Self {
        let before_bytes = self.before_bytes + start_bytes % self.len_bytes;
        Self::new(self.len_bytes, before_bytes)
    }

    /// Returns the number of the piece that contains the byte at `offset_bytes` of the device.
    #[must_use]
    pub fn number(&self, offset_bytes: u64) -> u64 {
        self.before_bytes.saturating_add(offset_bytes) / self.len_bytes
    }
}

/// Performs `requests`, one after the other, by the blocking calls of `device`.
pub fn perform_blocking(
    device: &(impl BlockDevice + ?Sized),
    requests: impl IntoIterator<Item = Request>,
) {
    for request in requests {
        request.perform(
            |bufs, offset_bytes| device.read_vectored_at(bufs, offset_bytes),
            |bufs, offset_bytes| device.write_vectored_at(bufs, offset_bytes),
        );
    }
}

/// Returns the requests that `check` accepts. Completes each of the others with the error that `check`
/// returned for it. The arguments of `check` are the offset and the length in bytes, and whether the request
/// is a write.
pub fn accepted(
    requests: Vec<Request>,
    check: impl Fn(u64, u64, bool) -> Result<()>,
) -> Vec<Request> {
    let checked = requests.into_iter().filter_map(|request| {
        let (offset_bytes, len_bytes) = (request.offset_bytes(), request.len_bytes());
        match check(offset_bytes, len_bytes, request.is_write()) {
            Ok(()) => Some(request),
            Err(error) => {
                request.complete(Err(error));
                None
            }
        }
    });
    checked.collect()
}

/// Divides `requests` into those for which `is_first` returns true, and the others. The arguments of
/// `is_first` are the offset and the length in bytes.
pub fn divided(
    requests: Vec<Request>,
    is_first: impl Fn(u64, u64) -> bool,
) -> (Vec<Request>, Vec<Request>) {
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for request in requests {
        if is_first(request.offset_bytes(), request.len_bytes()) {
            first.push(request);
        } else {
            others.push(request);
        }
    }
    (first, others)
}

/// Fills `buffers` with the bytes at `offset_bytes` of `device`, and returns them. The request owns the buffers.
/// Therefore, unlike in [`BlockDevice::read_at`], the wait can end before the device answers: after `timeout`, or when
/// the request is [cancelled](BlockDevice::cancel_in_flight).
///
/// # Errors
/// The error of the request, or of [`BlockDevice::perform`].
pub fn read_owned<B: ReadBuffers>(
    device: &dyn BlockDevice,
    buffers: B,
    offset_bytes: u64,
    timeout: Option<Duration>,
) -> Result<B> {
    let answer = Arc::new(Mutex::new(Err(Error::Cancelled)));
    let answered = Arc::clone(&answer);
    let request = Request::read(buffers, offset_bytes, move |buffers, result| {
        *answered.lock() = result.map(|()| buffers);
    });
    device.perform(vec![request], timeout)?;
    let mut answer = answer.lock();
    std::mem::replace(&mut *answer, Err(Error::Cancelled))
}

/// Performs `writes` on `device`. Each is an offset in bytes, and the buffers to write there. All are
/// submitted at once, and the function returns when all are complete.
///
/// # Errors
/// The first error of a write, or [`Error::Deadline`] if no write completes for [`BlockDevice::timeout`]. Any
/// of the bytes may then have been written.
pub fn write_all<B: WriteBuffers>(
    device: &dyn BlockDevice,
    writes: impl IntoIterator<Item = (u64, B)>,
) -> Result<()> {
    let failure = Arc::new(Mutex::new(None));
    let requests = writes.into_iter().map(|(offset_bytes, buffers)| {
        let failure = Arc::clone(&failure);
        Request::write(buffers, offset_bytes, move |_, result| {
            if let Err(error) = result {
                failure.lock().get_or_insert(error);
            }
        })
    });
    device.perform(requests.collect(), device.timeout())?;
    let failure = failure.lock().take();
    failure.map_or(Ok(()), Err)
}

/// Checks that a range is inside a device of `size_bytes`.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn check_range(size_bytes: u64, offset_bytes: u64, len_bytes: u64) -> Result<()> {
    match offset_bytes.checked_add(len_bytes) {
        Some(end_bytes) if end_bytes <= size_bytes => Ok(()),
        _ => Err(Error::OutOfRange {
            offset_bytes,
            len_bytes,
            size_bytes,
        }),
    }
}
