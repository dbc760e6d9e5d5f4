//! A device whose reads and writes time out.
//!
//! Model: the timeout of a command to a SCSI or `NVMe` device. Linux aborts a command that times out. If that
//! fails, Linux resets the device, so that the memory of the command can be reused. A program cannot do this:
//! when a thread stops waiting, the device may still use the memory of the command. Therefore a request
//! owns its memory, and keeps it until the device answers, if ever.
//!
//! A blocking call uses the memory of its caller, which a request cannot own. Therefore the call is performed as
//! a request with its own memory. The content is copied to the caller after a read, and from the caller before a
//! write. Long writes are divided into pieces of at most [`PIECE_BYTES`], each with the full timeout, so that little
//! memory is allocated. Callers that transfer much data pass requests with their own buffers to [`BlockDevice::perform`],
//! with the timeout of [`BlockDevice::timeout`].
//!
//! A write that timed out can still be in flight, and the device may perform it at any time. If another write of
//! the same bytes were performed before it, the late write would replace newer content. Linux resets the device
//! to prevent this. Here, a write fails at once with [`Error::Deadline`] if it overlaps a write that timed out and is
//! not complete. A submitted write, for which no thread waits, is treated in the same way until it is complete.
//!
//! This check does not find a write that is in flight and has not timed out yet. Another write of the same bytes can
//! then be performed first. If the first write times out later, it can still replace the newer content. Threads that
//! record errors in a superblock can write the same bytes at the same time, so the record of an error can be lost in
//! this way. The layers above serialize all other writes of the same bytes.
//!
//! The late writes are those of one `DeadlineDevice`. Another one on the same inner device does not know of them.
//!
//! These calls have no timeout here, and wait as long as the inner device does:
//!
//! - Flushes. The host can need many minutes to write the cached data of a file to a slow disk, and does not
//!   report progress. If the disk stops answering, the host's own timeout ends the flush.
//! - Writes to the page cache of the host ([`BlockDevice::caches_writes`]). The host delays them while too much of its
//!   cached data is dirty, so they can take as long as flushes.
//! - Discards.

use crate::buffers::{AlignedBytes, gather, scatter};
use crate::direct::{ALIGN_BYTES, PIECE_BYTES};
use crate::{
    BlockDevice, Error, Request, Result, accepted, check_range, gathered_bytes, read_owned,
    total_bytes, waiting, write_all,
};
use parking_lot::{Mutex, MutexGuard};
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A device whose reads and writes fail with [`Error::Deadline`] if another device does not answer in time.
#[derive(Debug)]
pub struct DeadlineDevice {
    inner: Arc<dyn BlockDevice>,
    timeout: Duration,
    late: Mutex<Vec<LateWrites>>,
}

/// Writes that timed out, or were submitted, and can still be in flight.
#[derive(Debug)]
struct LateWrites {
    ranges: Vec<Range<u64>>,
    /// The token of the writes. It exists until all of them are complete.
    token: Weak<()>,
}

impl DeadlineDevice {
    /// Creates a device whose reads and writes fail if `inner` does not answer within `timeout`.
    ///
    /// `inner` must perform requests on other threads or by `io_uring`. With
    /// [`BackEnd::Calls`](crate::BackEnd::Calls), reads and writes never time out.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>, timeout: Duration) -> Self {
        Self {
            inner,
            timeout,
            late: Mutex::default(),
        }
    }

    /// Returns `len_bytes` bytes at `offset_bytes`.
    fn read(&self, len_bytes: u64, offset_bytes: u64) -> Result<AlignedBytes> {
        waiting::check();
        // The range is checked before the memory is allocated.
        check_range(self.size_bytes(), offset_bytes, len_bytes)?;
        // The memory is aligned, so that direct I/O needs no bounce memory.
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        let bytes = AlignedBytes::zeroed(len, ALIGN_BYTES);
        read_owned(&*self.inner, bytes, offset_bytes, Some(self.timeout))
    }

    /// Returns `requests` without the writes that overlap a late write. These complete with [`Error::Deadline`].
    fn admitted(&self, requests: Vec<Request>) -> Vec<Request> {
        let late = self.late_ranges();
        if late.is_empty() {
            return requests;
        }
        accepted(requests, |offset_bytes, len_bytes, is_write| {
            if is_write {
                self.check_write(&late, offset_bytes, len_bytes)
            } else {
                Ok(())
            }
        })
    }

    /// Returns an error if a write of these bytes overlaps one of the ranges `late`.
    fn check_write(&self, late: &[Range<u64>], offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let end_bytes = offset_bytes.saturating_add(len_bytes);
        let overlaps = |range: &Range<u64>| range.start < end_bytes && offset_bytes < range.end;
        if late.iter().any(overlaps) {
            return Err(Error::Deadline(self.timeout));
        }
        Ok(())
    }

    /// Returns the late writes that can still be in flight.
    fn late(&self) -> MutexGuard<'_, Vec<LateWrites>> {
        let mut late = self.late.lock();
        late.retain(|writes| writes.token.strong_count() > 0);
        late
    }

    /// Returns the ranges of late writes that can still be in flight.
    fn late_ranges(&self) -> Vec<Range<u64>> {
        let late = self.late();
        let ranges = late.iter().flat_map(|writes| &writes.ranges);
        ranges.cloned().collect()
    }
}

/// Makes each write of `requests` keep `token` until it is complete. Returns the ranges of these writes.
fn tracked(requests: &mut [Request], token: &Arc<()>) -> Vec<Range<u64>> {
    let writes = requests.iter_mut().filter(|request| request.is_write());
    let ranges = writes.map(|request| {
        request.hold(token);
        let start_bytes = request.offset_bytes();
        start_bytes..start_bytes.saturating_add(request.len_bytes())
    });
    ranges.collect()
}

/// Returns the maximum length of a piece that starts at `at_bytes`. The piece ends at a multiple of [`PIECE_BYTES`], so
/// that the next piece is aligned.
fn piece_len(at_bytes: u64) -> usize {
    let used_bytes = at_bytes % PIECE_BYTES as u64;
    PIECE_BYTES - usize::try_from(used_bytes).unwrap_or(0)
}

impl BlockDevice for DeadlineDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.inner)
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        let bytes = self.read(buf.len() as u64, offset_bytes)?;
        buf.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        let bytes = self.read(total_bytes(bufs), offset_bytes)?;
        scatter(&bytes, bufs, 0);
        Ok(())
    }

    fn submit(&self, requests: Vec<Request>) {
        if !requests.iter().any(Request::is_write) {
            return self.inner.submit(requests);
        }
        let mut requests = self.admitted(requests);
        let token = Arc::new(());
        let ranges = tracked(&mut requests, &token);
        self.late.lock().push(LateWrites {
            ranges,
            token: Arc::downgrade(&token),
        });
        self.inner.submit(requests);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        if !requests.iter().any(Request::is_write) {
            return self.inner.perform(requests, timeout);
        }
        let mut requests = self.admitted(requests);
        let token = Arc::new(());
        let ranges = tracked(&mut requests, &token);
        let performed = self.inner.perform(requests, timeout);
        if performed.is_err() {
            let token = Arc::downgrade(&token);
            self.late.lock().push(LateWrites { ranges, token });
        }
        performed
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn has_late_writes(&self) -> bool {
        self.inner.has_late_writes() || !self.late().is_empty()
    }

    fn unchanged_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        self.inner.unchanged_bytes(offset_bytes, len_bytes)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.write_vectored_at(&[IoSlice::new(buf)], offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        waiting::check();
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        let len_bytes = gathered_bytes(bufs);
        check_range(self.size_bytes(), offset_bytes, len_bytes)?;
        if self.inner.caches_writes() {
            self.check_write(&self.late_ranges(), offset_bytes, len_bytes)?;
            return self.inner.write_vectored_at(bufs, offset_bytes);
        }
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        let mut start = 0;
        while start < len {
            let at_bytes = offset_bytes + start as u64;
            let piece_len = piece_len(at_bytes).min(len - start);
            let mut bytes = AlignedBytes::zeroed(piece_len, ALIGN_BYTES);
            gather(bufs, start, &mut bytes);
            write_all(self, [(at_bytes, bytes)])?;
            start += piece_len;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        self.inner.discard(offset_bytes, len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_after_the_first_one_are_aligned() {
        let most_bytes = PIECE_BYTES as u64;
        for (at_bytes, len) in [
            (0, PIECE_BYTES),
            (100, PIECE_BYTES - 100),
            (most_bytes - 1, 1),
            (3 * most_bytes, PIECE_BYTES),
        ] {
            assert_eq!(piece_len(at_bytes), len, "at {at_bytes}");
        }
    }
}
