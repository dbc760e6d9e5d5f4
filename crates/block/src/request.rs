//! Asynchronous reads and writes.
//!
//! A request owns its buffers, and `done`, the function that is called when the request completes. Therefore
//! a caller may stop waiting for a device that does not answer: the buffers stay with the request.
//!
//! ```text
//!            submit                    started by the device             completed, exactly once
//!   Request ---------> waiting for the device ---------> in flight ------------> done(buffers, result)
//!                          |                                                        ^
//!                          | cancelled, or the device is closed                     |
//!                          `--------------------------------------------------------'
//! ```

use crate::buffers::{ReadBuffers, WriteBuffers, gathered_bytes};
use crate::timing::Timing;
use crate::{Error, LatencyHistogram, Result, waiting};
use parking_lot::{Condvar, Mutex};
use std::fmt::{self, Debug, Formatter};
use std::io::{self, IoSlice, IoSliceMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The order in which a device starts requests that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A thread waits for the result.
    Demand,
    /// Readahead: started after the demand requests that wait. A device may limit the number of demand requests
    /// that it starts before a background request.
    Background,
}

/// Cancels requests that have not been started yet.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Cancels all requests that have this token, except those in flight, which complete normally. A device completes the
    /// others when it would start them, or in [`BlockDevice::cancel_in_flight`](crate::BlockDevice::cancel_in_flight).
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the token was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The direction of a request, with its buffers and `done`.
enum Operation {
    Read(Box<dyn ReadOperation>),
    Write(Box<dyn WriteOperation>),
}

trait ReadOperation: Send {
    fn slices_mut(&mut self) -> Vec<IoSliceMut<'_>>;
    fn complete(self: Box<Self>, result: Result<()>);
}

trait WriteOperation: Send {
    fn slices(&self) -> Vec<IoSlice<'_>>;
    fn complete(self: Box<Self>, result: Result<()>);
}

/// Buffers, and the function that is called when the request completes.
struct Owned<B, F> {
    buffers: B,
    done: F,
}

impl<B: ReadBuffers, F: FnOnce(B, Result<()>) + Send> ReadOperation for Owned<B, F> {
    fn slices_mut(&mut self) -> Vec<IoSliceMut<'_>> {
        self.buffers.slices_mut()
    }

    fn complete(self: Box<Self>, result: Result<()>) {
        (self.done)(self.buffers, result);
    }
}

impl<B: WriteBuffers, F: FnOnce(B, Result<()>) + Send> WriteOperation for Owned<B, F> {
    fn slices(&self) -> Vec<IoSlice<'_>> {
        self.buffers.slices()
    }

    fn complete(self: Box<Self>, result: Result<()>) {
        (self.done)(self.buffers, result);
    }
}

/// An asynchronous read or write. It completes exactly once. If it is dropped before it is
/// completed, it completes with [`Error::Cancelled`].
pub struct Request {
    /// `None` after completion.
    operation: Option<Operation>,
    offset_bytes: u64,
    len_bytes: u64,
    priority: Priority,
    cancel: Option<CancelToken>,
    countdown: Option<Arc<Countdown>>,
    /// Tokens that exist until the request is complete.
    held: Vec<Arc<()>>,
    map_error: Option<fn(Error) -> Error>,
    /// Where the duration is recorded, and the time of the submission.
    measured: Option<(Arc<Latencies>, Timing)>,
}

/// The durations of completed requests.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) reads: LatencyHistogram,
    pub(crate) writes: LatencyHistogram,
}

impl Request {
    /// Creates a read into `buffers` at `offset_bytes`. `done` is called on a thread of the device, or on the
    /// thread that submits the request or waits for it. `done` must be quick, and must not wait for another
    /// request.
    pub fn read<B: ReadBuffers>(
        mut buffers: B,
        offset_bytes: u64,
        done: impl FnOnce(B, Result<()>) + Send + 'static,
    ) -> Self {
        let len_bytes = buffers.len_bytes();
        let operation = Operation::Read(Box::new(Owned { buffers, done }));
        Self::new(operation, offset_bytes, len_bytes)
    }

    /// Creates a write of `buffers` at `offset_bytes`. `done` is as for [`Request::read`].
    pub fn write<B: WriteBuffers>(
        buffers: B,
        offset_bytes: u64,
        done: impl FnOnce(B, Result<()>) + Send + 'static,
    ) -> Self {
        let len_bytes = gathered_bytes(&buffers.slices());
        let operation = Operation::Write(Box::new(Owned { buffers, done }));
        Self::new(operation, offset_bytes, len_bytes)
    }

    fn new(operation: Operation, offset_bytes: u64, len_bytes: u64) -> Self {
        Self {
            operation: Some(operation),
            offset_bytes,
            len_bytes,
            priority: Priority::Demand,
            cancel: None,
            countdown: None,
            held: Vec::new(),
            map_error: None,
            measured: None,
        }
    }

    /// Sets the priority. The default is [`Priority::Demand`].
    #[must_use]
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Makes the request cancellable by `token`.
    #[must_use]
    pub fn with_cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Changes the offset of the first byte on the device. A device uses this to pass the request to another device.
    #[must_use]
    pub fn with_offset(mut self, offset_bytes: u64) -> Self {
        self.offset_bytes = offset_bytes;
        self
    }

    /// If the request fails, its `done` receives the result of `map` instead of the error. A device that passes requests to
    /// several devices uses this to describe the one that has failed.
    #[must_use]
    pub fn with_error(mut self, map: fn(Error) -> Error) -> Self {
        self.map_error = Some(map);
        self
    }

    /// Returns the token that can cancel the request, if it has one.
    #[must_use]
    pub fn cancel_token(&self) -> Option<&CancelToken> {
        self.cancel.as_ref()
    }

    /// Returns the priority.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Returns the offset of the first byte on the device.
    #[must_use]
    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Returns whether this is a write.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.operation, Some(Operation::Write(_)))
    }

    /// Returns whether the token of the request was cancelled. A device completes such a request with
    /// [`Error::Cancelled`] instead of starting it.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// Returns the total length of the buffers, in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Calls `read` or `write`, depending on the direction, with the buffers.
    ///
    /// # Panics
    /// If the request was completed.
    pub fn with_slices<R>(
        &mut self,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
        write: impl FnOnce(&[IoSlice<'_>]) -> R,
    ) -> R {
        match self
            .operation
            .as_mut()
            .expect("the request is not complete")
        {
            Operation::Read(operation) => read(&mut operation.slices_mut()),
            Operation::Write(operation) => write(&operation.slices()),
        }
    }

    /// Calls `read` or `write`, depending on the direction, with the buffers and the offset. Completes the
    /// request with the result of the call, which may block. If the request is cancelled, completes it
    /// without a call.
    pub fn perform(
        mut self,
        read: impl FnOnce(&mut [IoSliceMut<'_>], u64) -> Result<()>,
        write: impl FnOnce(&[IoSlice<'_>], u64) -> Result<()>,
    ) {
        let offset_bytes = self.offset_bytes;
        let result = if self.is_cancelled() {
            Err(Error::Cancelled)
        } else {
            self.with_slices(
                |slices| read(slices, offset_bytes),
                |slices| write(slices, offset_bytes),
            )
        };
        self.complete(result);
    }

    /// Completes the request: passes the buffers and `result` to its `done`.
    pub fn complete(mut self, result: Result<()>) {
        self.finish(result);
    }

    /// Completes the request with the system error `source`.
    pub fn fail(mut self, source: io::Error) {
        let (offset_bytes, len_bytes) = (self.offset_bytes, self.len_bytes);
        let error = if self.is_write() {
            Error::Write {
                offset_bytes,
                len_bytes,
                source,
            }
        } else {
            Error::Io {
                offset_bytes,
                len_bytes,
                source,
            }
        };
        self.finish(Err(error));
    }

    /// Records in `latencies` how long after the start of `timing` the request completes, unless it is cancelled. If several
    /// devices measure a request, only the first one records it.
    pub(crate) fn measure(&mut self, latencies: &Arc<Latencies>, timing: Timing) {
        self.measured
            .get_or_insert_with(|| (Arc::clone(latencies), timing));
    }

    /// Keeps `token` until the request is complete.
    pub(crate) fn hold(&mut self, token: &Arc<()>) {
        self.held.push(Arc::clone(token));
    }

    /// Returns whether `countdown` counts the completion of the request.
    pub(crate) fn is_counted_by(&self, countdown: &Arc<Countdown>) -> bool {
        let is_same = |own| Arc::ptr_eq(own, countdown);
        self.countdown.as_ref().is_some_and(is_same)
    }

    /// Calls `done`. If `done` panics, the thread continues with the next request: the panic is a bug in
    /// `done`, not a failure of the device.
    fn finish(&mut self, result: Result<()>) {
        let operation = self.operation.take();
        if let Some((latencies, timing)) = self.measured.take() {
            let histogram = match (&operation, &result) {
                (_, Err(Error::Cancelled)) | (None, _) => None,
                (Some(Operation::Read(_)), _) => Some(&latencies.reads),
                (Some(Operation::Write(_)), _) => Some(&latencies.writes),
            };
            if let (Some(histogram), Some(measured)) = (histogram, timing.end()) {
                histogram.record_measured(measured);
            }
        }
        let result = match self.map_error {
            Some(map) => result.map_err(map),
            None => result,
        };
        let done = AssertUnwindSafe(|| match operation {
            Some(Operation::Read(operation)) => operation.complete(result),
            Some(Operation::Write(operation)) => operation.complete(result),
            None => {}
        });
        if catch_unwind(done).is_err() {
            let offset_bytes = self.offset_bytes;
            tracing::error!(offset_bytes, "the completion of a device request panicked");
        }
        self.held.clear();
        if let Some(countdown) = self.countdown.take() {
            countdown.count();
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.finish(Err(Error::Cancelled));
    }
}

impl Debug for Request {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("is_write", &self.is_write())
            .field("offset_bytes", &self.offset_bytes)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// The number of requests that are not complete.
#[derive(Debug)]
pub(crate) struct Countdown {
    left: Mutex<usize>,
    none_left: Condvar,
}

impl Countdown {
    /// Counts the completions of `requests`.
    pub(crate) fn of(requests: &mut [Request]) -> Arc<Self> {
        let countdown = Arc::new(Self {
            left: Mutex::new(requests.len()),
            none_left: Condvar::new(),
        });
        for request in requests {
            let earlier = request.countdown.replace(Arc::clone(&countdown));
            debug_assert!(earlier.is_none(), "a thread already waits for {request:?}");
        }
        countdown
    }

    /// Records that a request is complete.
    fn count(&self) {
        let mut left = self.left.lock();
        *left -= 1;
        if *left == 0 {
            self.none_left.notify_all();
        }
    }

    /// Waits until all requests are complete.
    ///
    /// # Errors
    /// [`Error::Deadline`] if none of them completes within `timeout`.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        waiting::check();
        let mut left = self.left.lock();
        while *left > 0 {
            let Some(timeout) = timeout else {
                self.none_left.wait(&mut left);
                continue;
            };
            let before = *left;
            let waited = self.none_left.wait_for(&mut left, timeout);
            if waited.timed_out() && *left == before {
                return Err(Error::Deadline(timeout));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn held_token_is_dropped_after_every_end_of_a_request() {
        let ends: [fn(Request); 4] = [
            |request| request.complete(Ok(())),
            |request| request.fail(io::ErrorKind::Other.into()),
            // The request is cancelled.
            |request| request.perform(|_, _| unreachable!(), |_, _| unreachable!()),
            drop,
        ];
        for (end, panics) in ends.iter().flat_map(|end| [(end, false), (end, true)]) {
            let token = Arc::new(());
            let held = Arc::downgrade(&token);
            let at_end = held.clone();
            let (sender, receiver) = channel();
            let write = Request::write(vec![0; 1], 0, move |_, _| {
                sender.send(at_end.strong_count()).unwrap();
                assert!(!panics, "at the end of a request");
            });
            let cancel = CancelToken::default();
            cancel.cancel();
            let mut write = write.with_cancel(&cancel);
            write.hold(&token);
            drop(token);
            assert_eq!(held.strong_count(), 1);
            end(write);
            assert_eq!(receiver.try_recv(), Ok(1), "the token exists until the end");
            assert_eq!(held.strong_count(), 0);
        }
    }
}
