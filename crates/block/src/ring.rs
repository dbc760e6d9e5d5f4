//! Requests to one file through `io_uring`. This module passes pointers to the kernel, so it needs unsafe
//! code.
//!
//! Invariants:
//! 1. A submission refers to the buffers and to the array of parts of an [`InFlight`]. Both stay in place
//!    until the completion of the submission is taken from the ring. For the buffers,
//!    [`ReadBuffers`](crate::ReadBuffers) and [`WriteBuffers`](crate::WriteBuffers) guarantee this. The
//!    array is not changed while the kernel may read it.
//! 2. An [`InFlight`] is in `in_flight` from before its submission until its completion. A ring that is
//!    dropped while requests are in flight waits for them. It leaks those that do not complete in time.
//! 3. At most one submission for each [`InFlight`] exists, and at most one that waits for the wake-up event. The
//!    submission queue has an entry for each of them, so it has room for all.
//! 4. A ring that has failed makes no further `io_uring_enter` call. Therefore the kernel never reads the
//!    submissions that it had not taken when the ring failed. Their requests have ended.
//!
//! The ring has failed if `io_uring_enter` fails with an error that does not mean "try again". The head of the
//! submission queue shows which submissions the kernel has taken. The requests whose submissions it has not taken end
//! with the error. The other requests stay in flight. From then on, [`Ring::wait`] polls the ring for their
//! completions.
#![allow(unsafe_code, reason = "passes pointers to the kernel")]

use crate::lock::LockableFile;
use crate::request::Request;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum number of parts of a submission (`UIO_MAXIOV`).
const MAX_PARTS: usize = 1024;

/// The key of the submission that waits for the wake-up event.
const WAKE_KEY: u64 = u64::MAX;

/// The time for which a dropped ring waits for the next completion of a request.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The interval at which a ring that has failed is polled for completions.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A ring whose requests are all for one file. One thread uses it at a time.
pub(crate) struct Ring {
    uring: IoUring,
    file: Arc<LockableFile>,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<usize>,
    /// The keys of the submissions that the kernel has not taken, in order.
    unsubmitted: VecDeque<u64>,
    has_failed: bool,
    /// An event that ends a wait.
    wake: Option<Wake>,
}

/// An eventfd, and whether a submission waits for it.
struct Wake {
    event: Arc<OwnedFd>,
    is_armed: bool,
}

/// A request that the kernel performs.
struct InFlight {
    request: Request,
    /// The buffers. Those before `next` are complete, and the one at `next` starts at the first byte that was
    /// not transferred yet.
    parts: Vec<libc::iovec>,
    /// The index of the first buffer that is not complete.
    next: usize,
    /// The position in the file at which the next submission starts.
    position_bytes: u64,
    /// Whether the kernel refused to perform the request without blocking. If so, a thread of the kernel
    /// performs it.
    would_block: bool,
}

// SAFETY: the pointers in `parts` are to the buffers of `request`, which is `Send`.
unsafe impl Send for InFlight {}

/// A request that has ended, and its result.
pub(crate) struct Finished {
    request: Request,
    result: io::Result<()>,
}

impl Finished {
    /// Ends the request.
    pub(crate) fn complete(self) {
        match self.result {
            Ok(()) => self.request.complete(Ok(())),
            Err(source) => self.request.fail(source),
        }
    }
}

impl Ring {
    /// Creates a ring for at most `depth` requests to `file` at a time.
    ///
    /// # Errors
    /// If the kernel has no `io_uring`, or is older than Linux 5.11, or does not allow `io_uring`, or a limit
    /// is reached.
    pub(crate) fn new(file: &Arc<LockableFile>, depth: u32) -> io::Result<Self> {
        let uring = IoUring::builder()
            .setup_clamp()
            .dontfork()
            .build(depth + 1)?;
        if !uring.params().is_feature_ext_arg() {
            // Waiting with a timeout needs Linux 5.11.
            return Err(io::ErrorKind::Unsupported.into());
        }
        let depth = depth as usize;
        Ok(Self {
            uring,
            file: Arc::clone(file),
            in_flight: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            unsubmitted: VecDeque::new(),
            has_failed: false,
            wake: None,
        })
    }

    /// Ends waits of [`Ring::wait`] when `event`, an eventfd, is written to.
    pub(crate) fn wake_by(&mut self, event: Arc<OwnedFd>) {
        self.wake = Some(Wake {
            event,
            is_armed: false,
        });
    }

    /// Returns how many more requests the ring takes.
    pub(crate) fn room(&self) -> usize {
        if self.has_failed { 0 } else { self.free.len() }
    }

    /// Returns whether no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.free.len() == self.in_flight.len()
    }

    /// Adds a request, whose first byte is at `position_bytes` in the file. It is submitted by the next
    /// [`Ring::wait`].
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn push(&mut self, mut request: Request, position_bytes: u64) {
        let index = self.free.pop().expect("the caller checks for room");
        let parts = request.with_slices(read_parts, write_parts);
        self.in_flight[index] = Some(InFlight {
            request,
            parts,
            next: 0,
            position_bytes,
            would_block: false,
        });
        self.start(index);
    }

    /// Adds a submission for the parts of request `index` that are not complete.
    fn start(&mut self, index: usize) {
        let flight = self.in_flight[index].as_ref().expect("it is in flight");
        let parts = &flight.parts[flight.next..];
        let count = u32::try_from(parts.len().min(MAX_PARTS)).unwrap_or(0);
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = if flight.request.is_write() {
            opcode::Writev::new(fd, parts.as_ptr(), count)
                .offset(flight.position_bytes)
                .build()
        } else {
            opcode::Readv::new(fd, parts.as_ptr(), count)
                .offset(flight.position_bytes)
                .build()
        };
        let flags = if flight.would_block {
            squeue::Flags::ASYNC
        } else {
            squeue::Flags::empty()
        };
        self.add(&entry.flags(flags), index as u64);
    }

    fn add(&mut self, entry: &squeue::Entry, key: u64) {
        let entry = entry.clone().user_data(key);
        // SAFETY: by invariant 1 the pointers of `entry` are valid until its completion is taken.
        let added = unsafe { self.uring.submission().push(&entry) };
        added.expect("by invariant 3 the submission queue has room");
        self.unsubmitted.push_back(key);
    }

    /// Submits the requests that were added, waits until at least one has completed (or the wake-up event
    /// occurs, or `timeout` has passed), and appends the completed ones to `finished`.
    ///
    /// # Errors
    /// If `io_uring_enter` fails with an error that does not mean "try again". The ring has then failed, and the
    /// requests that the kernel has not taken are in `finished` with this error. All later calls succeed, and return
    /// after a short time.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        finished: &mut Vec<Finished>,
    ) -> io::Result<()> {
        if self.has_failed {
            std::thread::sleep(POLL_INTERVAL);
            self.take(finished);
            return Ok(());
        }
        self.arm_wake();
        let timespec = timeout.map(types::Timespec::from);
        let mut args = types::SubmitArgs::new();
        if let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        let waited = self.uring.submitter().submit_with_args(1, &args);
        let left = self.uring.submission().len();
        self.unsubmitted.drain(..self.unsubmitted.len() - left);
        let waited = match waited.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        {
            // EBUSY and EAGAIN: take completions first, then submit the rest.
            Ok(_) | Err(Errno::INTR | Errno::TIME | Errno::BUSY | Errno::AGAIN) => Ok(()),
            Err(errno) => {
                self.fail(errno, finished);
                Err(errno.into())
            }
        };
        self.take(finished);
        waited
    }

    /// Fails the requests that the kernel has not taken. Their result is the error `errno`. The wake-up event, which
    /// another ring may use from now on, is not read again.
    fn fail(&mut self, errno: Errno, finished: &mut Vec<Finished>) {
        self.has_failed = true;
        self.wake = None;
        for key in std::mem::take(&mut self.unsubmitted) {
            if key != WAKE_KEY {
                finished.push(self.finish(key, Err(errno.into())));
            }
        }
    }

    /// Removes the request `key`, which has ended.
    fn finish(&mut self, key: u64, result: io::Result<()>) -> Finished {
        let index = usize::try_from(key).expect("a key is an index");
        let flight = self.in_flight[index].take().expect("it is in flight");
        self.free.push(index);
        Finished {
            request: flight.request,
            result,
        }
    }

    fn arm_wake(&mut self) {
        if let Some(wake) = &mut self.wake
            && !wake.is_armed
        {
            wake.is_armed = true;
            let fd = types::Fd(wake.event.as_raw_fd());
            let readable = u32::try_from(libc::POLLIN).unwrap_or(1);
            let entry = opcode::PollAdd::new(fd, readable).build();
            self.add(&entry, WAKE_KEY);
        }
    }

    /// Takes the completions from the ring.
    fn take(&mut self, finished: &mut Vec<Finished>) {
        let completions: Vec<_> = self
            .uring
            .completion()
            .map(|entry| (entry.user_data(), entry.result()))
            .collect();
        for (key, result) in completions {
            if key == WAKE_KEY {
                if let Some(wake) = &mut self.wake {
                    wake.is_armed = false;
                    // If the read fails, the event stays set, and the next wait ends at once.
                    let _ = rustix::io::read(&wake.event, &mut [0; 8]);
                }
                continue;
            }
            let index = usize::try_from(key).expect("a key is an index");
            let flight = self.in_flight[index].as_mut().expect("it is in flight");
            match flight.advance(result, &self.file) {
                None if self.has_failed => {
                    finished.push(self.finish(key, Err(Errno::IO.into())));
                }
                None => self.start(index),
                Some(result) => finished.push(self.finish(key, result)),
            }
        }
    }
}

impl InFlight {
    /// Accounts for a completion of a submission to `file`. Returns the result of the request, or `None` if the request
    /// must be submitted again.
    fn advance(&mut self, result: i32, file: &LockableFile) -> Option<io::Result<()>> {
        let Ok(mut done) = usize::try_from(result) else {
            let errno = Errno::from_raw_os_error(-result);
            // A file system that cannot read without blocking returns EAGAIN. The second submission may
            // block, so EAGAIN is then a failure.
            let again = errno == Errno::INTR || errno == Errno::AGAIN && !self.would_block;
            self.would_block |= errno == Errno::AGAIN;
            return (!again).then(|| Err(errno.into()));
        };
        if done == 0 && !self.is_complete() {
            return Some(Err(if self.request.is_write() {
                Errno::IO.into()
            } else {
                crate::error::truncated()
            }));
        }
        let len = done;
        self.position_bytes += done as u64;
        while let Some(part) = self.parts.get_mut(self.next) {
            if done < part.iov_len {
                part.iov_base = part.iov_base.cast::<u8>().wrapping_add(done).cast();
                part.iov_len -= done;
                break;
            }
            done -= part.iov_len;
            self.next += 1;
        }
        if self.is_complete() {
            return Some(Ok(()));
        }
        let is_at_end = !self.request.is_write() && file.ends_after(len);
        is_at_end.then(|| Err(crate::error::truncated()))
    }

    fn is_complete(&self) -> bool {
        self.parts[self.next..].iter().all(|part| part.iov_len == 0)
    }
}

fn read_parts(slices: &mut [IoSliceMut<'_>]) -> Vec<libc::iovec> {
    let part = |slice: &mut IoSliceMut<'_>| libc::iovec {
        iov_base: slice.as_mut_ptr().cast(),
        iov_len: slice.len(),
    };
    slices.iter_mut().map(part).collect()
}

fn write_parts(slices: &[IoSlice<'_>]) -> Vec<libc::iovec> {
    let part = |slice: &IoSlice<'_>| libc::iovec {
        iov_base: slice.as_ptr().cast_mut().cast(),
        iov_len: slice.len(),
    };
    slices.iter().map(part).collect()
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut finished = Vec::new();
        let mut end = Instant::now() + CLOSE_TIMEOUT;
        while !self.is_idle() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The kernel may still write to the buffers, or to the file, which must stay locked.
                std::mem::forget(std::mem::take(&mut self.in_flight));
                std::mem::forget(Arc::clone(&self.file));
                self.free.clear();
                break;
            }
            let before = finished.len();
            // A ring that has failed still returns completions.
            let _ = self.wait(Some(left), &mut finished);
            if finished.len() > before {
                end = Instant::now() + CLOSE_TIMEOUT;
            }
        }
        finished.into_iter().for_each(Finished::complete);
    }
}

impl Debug for Ring {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("depth", &self.in_flight.len())
            .field("room", &self.room())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
