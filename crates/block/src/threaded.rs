//! A device whose requests are performed by blocking calls on threads.

use crate::engine::{Calls, Engine};
use crate::{BackEnd, BlockDevice, Request, Result, accepted, check_range, perform_blocking};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

/// A device that performs the requests of [`BlockDevice::submit`] on its own threads, by the blocking calls
/// of another device. The other device need not support asynchronous requests. Blocking calls are passed to
/// it directly.
#[derive(Debug)]
pub struct ThreadedDevice {
    inner: Arc<dyn BlockDevice>,
    engine: Engine<DeviceCalls>,
}

/// The blocking calls of a device.
struct DeviceCalls(Arc<dyn BlockDevice>);

impl Calls for DeviceCalls {
    fn perform(&self, request: Request) {
        perform_blocking(&*self.0, [request]);
    }

    fn position_bytes(&self, offset_bytes: u64) -> u64 {
        offset_bytes
    }
}

impl ThreadedDevice {
    /// Creates a device that performs requests by the calls of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        let calls = Arc::new(DeviceCalls(Arc::clone(&inner)));
        Self {
            inner,
            engine: Engine::of_threads(calls),
        }
    }

    /// Performs `requests` on the threads of the device, as [`BlockDevice::perform`] does. Calls `meanwhile` on this
    /// thread while they are in flight, for example to perform other requests on another device.
    ///
    /// # Errors
    /// That of `meanwhile`, and those of [`BlockDevice::perform`]. Requests that no thread has started are then cancelled.
    pub fn perform_during(
        &self,
        requests: Vec<Request>,
        timeout: Option<Duration>,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let requests = accepted(requests, |at, len, _| {
            check_range(self.size_bytes(), at, len)
        });
        self.engine.perform_during(requests, timeout, meanwhile)
    }
}

impl BlockDevice for ThreadedDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.inner)
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.inner.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.inner.read_vectored_at(bufs, offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        let requests = accepted(requests, |at, len, _| {
            check_range(self.size_bytes(), at, len)
        });
        self.engine.submit(requests);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        if timeout.is_none() {
            // It is faster to make the calls on this thread. With a timeout, that is impossible: this thread
            // cannot return while a call blocks.
            return self.inner.perform(requests, None);
        }
        self.perform_during(requests, timeout, || Ok(()))
    }

    fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        self.engine.expedite(offset_bytes, len_bytes);
        self.inner.expedite(offset_bytes, len_bytes);
    }

    fn cancel_in_flight(&self) {
        self.engine.complete_cancelled();
        self.inner.cancel_in_flight();
    }

    fn back_end(&self) -> BackEnd {
        self.engine.back_end()
    }

    fn unchanged_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        self.inner.unchanged_bytes(offset_bytes, len_bytes)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.inner.write_at(buf, offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        self.inner.write_vectored_at(bufs, offset_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        self.inner.discard(offset_bytes, len_bytes)
    }
}
