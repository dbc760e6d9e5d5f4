//! A device that completes requests out of order.

use larder_block::{BackEnd, BlockDevice, Request, Result, perform_blocking};
use parking_lot::{Condvar, Mutex};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A device that performs the requests of [`BlockDevice::submit`] on a thread of its own, in an
/// order that a seed determines. It does not answer requests to [silent](Self::silence) ranges. Blocking
/// calls are forwarded.
#[derive(Debug)]
pub struct ReorderingDevice {
    inner: Arc<dyn BlockDevice>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Request>,
    /// Requests that the device has accepted and does not answer.
    unanswered: Vec<Request>,
    silent: Vec<Range<u64>>,
    is_held: bool,
    is_closed: bool,
}

impl ReorderingDevice {
    /// Creates a device that performs requests on `inner`, in an order that `seed` determines.
    ///
    /// # Panics
    /// Panics if no thread can be started.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>, seed: u64) -> Self {
        let shared = Arc::<Shared>::default();
        let (device, queue) = (Arc::clone(&inner), Arc::clone(&shared));
        let thread = std::thread::spawn(move || {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            while let Some(request) = queue.next(&mut random) {
                perform_blocking(&*device, [request]);
            }
        });
        Self {
            inner,
            shared,
            thread: Some(thread),
        }
    }

    /// Does not answer requests whose first byte is in `bytes`, until [`ReorderingDevice::answer`] is called.
    /// If the device is dropped before that, these requests fail.
    #[must_use]
    pub fn with_silence(self, bytes: Range<u64>) -> Self {
        self.silence(bytes);
        self
    }

    /// Does the same as [`ReorderingDevice::with_silence`] for requests that are submitted later.
    pub fn silence(&self, bytes: Range<u64>) {
        self.shared.state.lock().silent.push(bytes);
    }

    /// Performs the requests that were not answered, and all later ones.
    pub fn answer(&self) {
        let mut state = self.shared.state.lock();
        state.silent.clear();
        let unanswered = std::mem::take(&mut state.unanswered);
        state.waiting.extend(unanswered);
        self.shared.changed.notify_all();
    }

    /// If `is_held` is true, starts no further requests until `hold` is called with false. If `is_held` is
    /// false, performs the requests that were held and all later ones.
    pub fn hold(&self, is_held: bool) {
        self.shared.state.lock().is_held = is_held;
        self.shared.changed.notify_all();
    }

    /// Returns the number of requests that the device has accepted and not started.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let state = self.shared.state.lock();
        state.waiting.len() + state.unanswered.len()
    }
}

impl Shared {
    /// Waits until a request can be performed, and removes and returns a random one. Returns `None`
    /// if the device was dropped and no request is left.
    fn next(&self, random: &mut Pcg64Mcg) -> Option<Request> {
        let mut state = self.state.lock();
        loop {
            if !state.waiting.is_empty() && (!state.is_held || state.is_closed) {
                let index = random.random_range(0..state.waiting.len());
                return Some(state.waiting.swap_remove(index));
            }
            if state.is_closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

impl BlockDevice for ReorderingDevice {
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
        let mut state = self.shared.state.lock();
        for request in requests {
            let at = request.offset_bytes();
            if state.silent.iter().any(|bytes| bytes.contains(&at)) {
                state.unanswered.push(request);
            } else {
                state.waiting.push(request);
            }
        }
        self.shared.changed.notify_all();
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

impl Drop for ReorderingDevice {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the panic was already reported.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_block::{Error, MemoryDevice};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Returns the order in which `seed` completes ten reads.
    fn order(seed: u64) -> Vec<u64> {
        let device = ReorderingDevice::new(Arc::new(MemoryDevice::new((0..10).collect())), seed);
        device.hold(true);
        let (sender, receiver) = channel();
        let requests = (0..10).map(|at| {
            let done = sender.clone();
            Request::read(vec![0], at, move |bytes, result| {
                result.unwrap();
                assert_eq!(u64::from(bytes[0]), at);
                done.send(at).unwrap();
            })
        });
        device.submit(requests.collect());
        assert_eq!(device.waiting(), 10);
        device.hold(false);
        (0..10).map(|_| receiver.recv().unwrap()).collect()
    }

    #[test]
    fn seed_determines_the_order_of_completions() {
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_ne!(order(1), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn unanswered_request_ends_the_wait_at_the_deadline() {
        let device = ReorderingDevice::new(Arc::new(MemoryDevice::new(vec![7; 100])), 1)
            .with_silence(50..60);
        let (sender, receiver) = channel();
        let read = |at| {
            let done = sender.clone();
            Request::read(vec![0; 5], at, move |_, result| {
                done.send((at, result)).unwrap();
            })
        };
        device.perform(vec![read(0), read(70)], None).unwrap();
        assert_eq!(receiver.try_iter().count(), 2);
        let deadline = Some(Duration::from_millis(1));
        let waited = device.perform(vec![read(50)], deadline);
        assert!(matches!(waited, Err(Error::Deadline(_))), "{waited:?}");
        assert!(receiver.try_recv().is_err());
        drop(device);
        let (at, result) = receiver.recv().unwrap();
        assert_eq!(at, 50);
        assert!(matches!(result, Err(Error::Cancelled)));
    }
}
