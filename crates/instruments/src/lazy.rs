//! A device that performs background requests only on demand.

use larder_block::{BackEnd, BlockDevice, Pieces, Priority, Request, Result, perform_blocking};
use parking_lot::Mutex;
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::sync::Arc;

/// A device that delivers its content in pieces, like a device at a URL.
///
/// A request with [`Priority::Background`] waits until a thread [expedites](BlockDevice::expedite) it, the test calls
/// [`LazyDevice::perform_waiting`], or it is [cancelled](BlockDevice::cancel_in_flight). Any other request is complete
/// when the call that submits it returns, unless [all requests wait](LazyDevice::with_all_waiting).
#[derive(Debug)]
pub struct LazyDevice {
    inner: Arc<dyn BlockDevice>,
    pieces: Option<Pieces>,
    all_wait: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Request>,
    submitted: Vec<(u64, u64)>,
    announced: Vec<(u64, u64)>,
}

impl LazyDevice {
    /// Creates a device with the content of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>, piece_bytes: NonZeroU64) -> Self {
        Self {
            inner,
            pieces: Some(Pieces::new(piece_bytes, 0)),
            all_wait: false,
            state: Mutex::default(),
        }
    }

    /// Makes the device behave like a device for a local image whose queue is full. It has no pieces, and
    /// `cancel_in_flight` completes only requests whose token was cancelled.
    #[must_use]
    pub fn without_pieces(mut self) -> Self {
        self.pieces = None;
        self
    }

    /// Makes all requests wait, whatever their priority.
    #[must_use]
    pub fn with_all_waiting(mut self) -> Self {
        self.all_wait = true;
        self
    }

    /// Returns the offset and the length in bytes of each request that was submitted since the last call.
    #[must_use]
    pub fn take_submitted(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.state.lock().submitted)
    }

    /// Returns the offset and the length in bytes of each range that was announced since the last call.
    #[must_use]
    pub fn take_announced(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.state.lock().announced)
    }

    /// Returns the number of requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Performs all requests that wait.
    pub fn perform_waiting(&self) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        perform_blocking(self, waiting);
    }
}

impl BlockDevice for LazyDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.inner.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.inner.read_vectored_at(bufs, offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        for request in requests {
            let submitted = (request.offset_bytes(), request.len_bytes());
            let is_waiting = self.all_wait || request.priority() == Priority::Background;
            let mut state = self.state.lock();
            state.submitted.push(submitted);
            if is_waiting {
                state.waiting.push(request);
            } else {
                // A request that completes may submit others.
                drop(state);
                perform_blocking(self, [request]);
            }
        }
    }

    fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        let is_needed = |request: &mut Request| {
            let at = request.offset_bytes();
            at < offset_bytes + len_bytes && offset_bytes < at + request.len_bytes()
        };
        let mut state = self.state.lock();
        let needed: Vec<_> = state.waiting.extract_if(.., is_needed).collect();
        drop(state);
        perform_blocking(self, needed);
    }

    fn announce(&self, offset_bytes: u64, len_bytes: u64, _: Priority) {
        let mut state = self.state.lock();
        state.announced.push((offset_bytes, len_bytes));
    }

    fn cancel_in_flight(&self) {
        let is_cancelled = |request: &mut Request| self.pieces.is_some() || request.is_cancelled();
        let mut state = self.state.lock();
        let cancelled: Vec<_> = state.waiting.extract_if(.., is_cancelled).collect();
        drop(state);
        // The drop of a request cancels it.
        drop(cancelled);
    }

    fn pieces(&self) -> Option<Pieces> {
        self.pieces
    }

    fn back_end(&self) -> BackEnd {
        BackEnd::Threads
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.inner.write_at(buf, offset_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }
}
