//! Performs reads and writes of a file, through `io_uring` or on threads that make blocking calls.
//!
//! Model: a thread that waits for its requests performs them itself, on a ring that it takes from a pool or
//! by blocking calls (see [`Engine::perform`]), so that no other thread is woken for them. Requests for which
//! no thread waits are performed by one background thread, which is created when the first of them is
//! submitted. This thread keeps at most [`BACKGROUND_DEPTH`] requests in flight. The others stay in the queue, where
//! they can be cancelled, and are started in the order that [`queue`] defines.
//!
//! If no ring can be created when the device is opened (`kernel.io_uring_disabled`, seccomp, Linux before 5.11,
//! a limit on open files or locked memory), up to [`MAX_THREADS`] threads make blocking calls for all requests,
//! even for those for which a thread waits. A thread that waits performs only two kinds of requests itself: those for
//! which [`Engine::perform`] makes a blocking call, and a single read that the page cache can serve. A thread is
//! created when more requests wait than there are idle threads, and ends when it has been idle for
//! [`IDLE_TIME`](queue::IDLE_TIME).
//!
//! A limit can also prevent the creation of further rings later. A thread that waits for its requests then passes them
//! to the background thread. If the background thread has no ring, or its ring fails, it makes blocking calls, one
//! after the other, and ends when it has been idle for [`IDLE_TIME`](queue::IDLE_TIME). Its successor tries to create a
//! ring again.
//!
//! Threads: the number of threads of an engine does not depend on the number of processors. Only the number of the
//! kernel's threads (`iou-wrk-N`) does. They perform those requests of a ring that would block: reads from a file
//! system that cannot read asynchronously, and writes to the page cache. For each thread that uses a ring, the kernel
//! starts at most 4 of them per processor, and at most one per entry of the submission queue (which has 128 entries for
//! [`DEPTH`], 256 for [`BACKGROUND_DEPTH`]).
//!
//! Timeouts: a thread that waits in [`Engine::perform`] gives up if none of its requests completes for the
//! duration of the timeout. Its requests that have not been started are then cancelled. Its requests in flight
//! keep their buffers until they complete. A ring with requests in flight is passed to a separate thread, which
//! ends when the requests are complete. If the device never answers, this thread never ends. Writes that only
//! copy to the kernel's page cache are blocking calls without a timeout.
//!
//! A dropped engine waits at most [`CLOSE_TIMEOUT`] for its threads. Requests that are still in flight after
//! this time keep the file open and locked.

use crate::lock::LockableFile;
use crate::processors::run_on_all_processors;
use crate::request::{Countdown, Request};
use crate::ring::{Finished, Ring};
use crate::{BackEnd, Error, Result};
use parking_lot::Mutex;
use queue::{Queue, Waiting};
use rustix::event::{EventfdFlags, eventfd};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

mod queue;

/// The maximum number of requests in flight on the ring of a thread that waits for them.
const DEPTH: u32 = 64;

/// The maximum number of requests that the background thread has in flight.
const BACKGROUND_DEPTH: u32 = 128;

/// The maximum number of unused rings that are kept for reuse.
const KEPT_RINGS: usize = 8;

/// The maximum number of threads if `io_uring` is not used.
const MAX_THREADS: usize = 8;

/// The time for which a dropped engine waits for its threads.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Performs a request by blocking system calls.
pub(crate) trait Calls: Send + Sync + 'static {
    /// Performs `request` if this is possible without waiting for the device. Otherwise returns `request`.
    /// The caller has checked the range of the request.
    fn perform_cached(&self, request: Request) -> Option<Request> {
        Some(request)
    }

    /// Performs `request`. The caller has checked the range of the request.
    fn perform(&self, request: Request);

    /// Returns the position in the file that corresponds to `offset_bytes` on the device.
    fn position_bytes(&self, offset_bytes: u64) -> u64;
}

/// Performs the requests to one file.
pub(crate) struct Engine<C> {
    calls: Arc<C>,
    has_page_cache: bool,
    kind: Kind,
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Creates a ring for a file. The number is the maximum number of requests in flight. The function is [`Ring::new`],
/// or, in a test, one that refuses some rings.
type SetUp = fn(&Arc<LockableFile>, u32) -> io::Result<Ring>;

enum Kind {
    IoUring {
        set_up: SetUp,
        file: Arc<LockableFile>,
        /// Rings that no thread uses at present.
        rings: Mutex<Vec<Ring>>,
        /// Wakes the background thread.
        event: Arc<OwnedFd>,
    },
    Threads,
}

impl<C: Calls> Engine<C> {
    /// Creates an engine for `file`. The engine uses `io_uring` if the kernel allows it and `back_end` does
    /// not select another back end. Otherwise it uses threads.
    ///
    /// If `has_page_cache` is true, a write to the file only copies to the kernel's page cache. A thread that
    /// waits for a write then performs it by a blocking call, because `io_uring` would wake a kernel thread
    /// for the copy.
    pub(crate) fn new(
        calls: Arc<C>,
        file: &Arc<LockableFile>,
        has_page_cache: bool,
        back_end: Option<BackEnd>,
    ) -> Self {
        Self::with_set_up(calls, file, has_page_cache, back_end, Ring::new)
    }

    /// Creates the engine as [`Engine::new`] does, with rings that `set_up` creates.
    fn with_set_up(
        calls: Arc<C>,
        file: &Arc<LockableFile>,
        has_page_cache: bool,
        back_end: Option<BackEnd>,
        set_up: SetUp,
    ) -> Self {
        let kind = match back_end {
            None | Some(BackEnd::IoUring) => Kind::io_uring(file, set_up).unwrap_or(Kind::Threads),
            Some(BackEnd::Threads | BackEnd::Calls) => Kind::Threads,
        };
        let mut engine = Self::of_threads(calls);
        engine.has_page_cache = has_page_cache;
        engine.kind = kind;
        engine
    }

    /// Creates an engine whose threads perform requests by `calls`.
    pub(crate) fn of_threads(calls: Arc<C>) -> Self {
        Self {
            calls,
            has_page_cache: false,
            kind: Kind::Threads,
            queue: Arc::default(),
            threads: Mutex::default(),
        }
    }

    /// Returns whether writes only copy to the kernel's page cache.
    pub(crate) fn has_page_cache(&self) -> bool {
        self.has_page_cache
    }

    /// Returns the back end that performs requests.
    pub(crate) fn back_end(&self) -> BackEnd {
        match self.kind {
            Kind::IoUring { .. } => BackEnd::IoUring,
            Kind::Threads => BackEnd::Threads,
        }
    }

    /// Queues `requests` for the threads of the engine, and returns without waiting for the results. If
    /// the engine has no thread and none can be created, performs the requests on this thread. The caller
    /// has checked the ranges of the requests.
    pub(crate) fn submit(&self, requests: Vec<Request>) {
        if requests.is_empty() {
            return;
        }
        self.queue.push(requests);
        if let Kind::IoUring { event, .. } = &self.kind {
            wake(event);
        }
        if !self.start_threads() {
            while let Some(request) = self.queue.take() {
                self.calls.perform(request);
            }
        }
    }

    /// Performs `requests` and waits for them. The caller has checked their ranges.
    ///
    /// Some requests are performed by a blocking call: writes that only copy to the kernel's page cache,
    /// whatever `timeout` is, and a single request without a timeout.
    ///
    /// # Errors
    /// - [`Error::Deadline`] if none of the other requests completes for the duration of `timeout`. Requests in
    ///   flight complete later, or never. Requests that have not been started are cancelled.
    /// - [`Error::Wait`] if the system call that waits for completions fails. Requests in flight complete
    ///   later, or never. The other requests fail or are cancelled.
    pub(crate) fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        let is_call = |request: &Request| request.is_write() && self.has_page_cache;
        let (mut calls, mut requests): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_call);
        if timeout.is_none() && requests.len() == 1 {
            // A blocking call is fastest. It is possible only without a timeout: a thread cannot stop
            // waiting for its own call.
            calls.append(&mut requests);
        }
        for request in calls {
            self.calls.perform(request);
        }
        if requests.is_empty() {
            return Ok(());
        }
        match self.kind.ring() {
            Some(ring) => self.perform_on(ring, requests, timeout),
            None => self.perform_by_calls(requests, timeout),
        }
    }

    /// Performs `requests` on `ring`, on this thread.
    fn perform_on(
        &self,
        mut ring: Ring,
        requests: Vec<Request>,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let end = || timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut waiting = Waiting::default();
        for request in requests {
            waiting.push(request);
        }
        let mut finished = Vec::new();
        let mut given_up_at = end();
        loop {
            start(|| waiting.pop(), &mut ring, &*self.calls);
            if ring.is_idle() {
                break;
            }
            let left = given_up_at.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                abandon(ring);
                return Err(Error::Deadline(timeout.unwrap_or_default()));
            }
            let waited = ring.wait(left, &mut finished);
            if !finished.is_empty() {
                given_up_at = end();
            }
            finished.drain(..).for_each(Finished::complete);
            if let Err(error) = waited {
                abandon(ring);
                return Err(Error::Wait(error));
            }
        }
        self.kind.keep(ring);
        Ok(())
    }

    /// Passes `requests` to the threads of the engine, and waits for them.
    fn perform_by_calls(
        &self,
        mut requests: Vec<Request>,
        timeout: Option<Duration>,
    ) -> Result<()> {
        if requests.len() == 1 && self.has_page_cache {
            // A call that does not wait for the device takes less time than waking another thread.
            let perform = |request| self.calls.perform_cached(request);
            requests = requests.into_iter().filter_map(perform).collect();
        }
        self.perform_during(requests, timeout, || Ok(()))
    }

    /// Passes `requests` to the threads of the engine, calls `meanwhile`, and waits for the requests. The caller has
    /// checked their ranges.
    ///
    /// # Errors
    /// The error of `meanwhile`. [`Error::Deadline`] if, after `meanwhile`, none of the requests completes for the
    /// duration of `timeout`. Requests that have not been started are then cancelled. Requests in flight complete
    /// later, or never.
    pub(crate) fn perform_during(
        &self,
        mut requests: Vec<Request>,
        timeout: Option<Duration>,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let countdown = Countdown::of(&mut requests);
        self.submit(requests);
        let waited = meanwhile().and_then(|()| countdown.wait(timeout));
        if waited.is_err() {
            self.queue
                .cancel(|request| request.is_counted_by(&countdown));
        }
        waited
    }

    /// Starts the queued background requests for these bytes as if they were demand requests.
    pub(crate) fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        let end_bytes = offset_bytes.saturating_add(len_bytes);
        self.queue.expedite(&(offset_bytes..end_bytes));
    }

    /// Completes the queued requests whose [token](crate::CancelToken) was cancelled. Requests in flight complete
    /// normally.
    pub(crate) fn complete_cancelled(&self) {
        self.queue.cancel(Request::is_cancelled);
    }

    /// Starts threads for the queued requests. Returns whether the engine has at least one thread.
    fn start_threads(&self) -> bool {
        let mut handles = self.threads.lock();
        handles.retain(|handle| !handle.is_finished());
        let most = match &self.kind {
            Kind::IoUring { .. } => 1,
            Kind::Threads => MAX_THREADS,
        };
        for _ in 0..self.queue.missing_threads(most) {
            match self.start_thread() {
                Ok(handle) => handles.push(handle),
                Err(_) => self.queue.end_thread(),
            }
        }
        self.queue.has_threads()
    }

    /// Starts a thread, which [`Queue::missing_threads`] has already counted.
    fn start_thread(&self) -> io::Result<JoinHandle<()>> {
        let (queue, calls) = (Arc::clone(&self.queue), Arc::clone(&self.calls));
        let ring = self.kind.background_ring();
        let thread = std::thread::Builder::new().name("larder-device".to_owned());
        thread.spawn(move || {
            run_on_all_processors();
            run(ring, &queue, &*calls);
        })
    }
}

impl Kind {
    /// Creates the kind that uses `io_uring`. Returns `None` if no ring can be created.
    fn io_uring(file: &Arc<LockableFile>, set_up: SetUp) -> Option<Self> {
        let ring = set_up(file, DEPTH).ok()?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        Some(Self::IoUring {
            set_up,
            file: Arc::clone(file),
            rings: Mutex::new(vec![ring]),
            event: Arc::new(event),
        })
    }

    /// Returns a ring for the current thread, or `None` if the engine uses threads or no ring can be
    /// created.
    fn ring(&self) -> Option<Ring> {
        let Self::IoUring {
            set_up,
            file,
            rings,
            ..
        } = self
        else {
            return None;
        };
        let kept = rings.lock().pop();
        kept.or_else(|| set_up(file, DEPTH).ok())
    }

    /// Returns a ring for the background thread, or `None` if the engine uses threads or no ring can be created.
    fn background_ring(&self) -> Option<Ring> {
        let Self::IoUring {
            set_up,
            file,
            event,
            ..
        } = self
        else {
            return None;
        };
        match set_up(file, BACKGROUND_DEPTH) {
            Ok(mut ring) => {
                ring.wake_by(Arc::clone(event));
                Some(ring)
            }
            Err(error) => {
                tracing::warn!(%error, "io_uring is not available for readahead");
                None
            }
        }
    }

    /// Keeps `ring` for reuse, unless [`KEPT_RINGS`] are kept already.
    fn keep(&self, ring: Ring) {
        if let Self::IoUring { rings, .. } = self {
            let mut rings = rings.lock();
            if rings.len() < KEPT_RINGS {
                rings.push(ring);
            }
        }
    }
}

/// Adds the requests that `next` returns to `ring` while it has room.
fn start(mut next: impl FnMut() -> Option<Request>, ring: &mut Ring, calls: &impl Calls) {
    while ring.room() > 0
        && let Some(request) = next()
    {
        if request.is_cancelled() {
            // Dropping the request completes it with `Error::Cancelled`.
            continue;
        }
        let position_bytes = calls.position_bytes(request.offset_bytes());
        ring.push(request, position_bytes);
    }
}

/// Passes `ring` to a new thread, which completes the requests in flight. Returns without waiting for them.
fn abandon(mut ring: Ring) {
    let finish = move || {
        let mut finished = Vec::new();
        while !ring.is_idle() {
            // A failed ring still delivers completions.
            let _ = ring.wait(None, &mut finished);
            finished.drain(..).for_each(Finished::complete);
        }
    };
    // If no thread can be created, the ring is dropped here, which waits for the requests for a limited time.
    let _ = std::thread::Builder::new()
        .name("larder-late".to_owned())
        .spawn(finish);
}

/// Performs the requests of `queue` on `ring` until the queue is closed. Without a ring, or after its failure,
/// performs them by blocking calls until the queue is closed or has been empty for [`IDLE_TIME`](queue::IDLE_TIME).
/// The next request that is submitted then starts a new thread.
fn run(ring: Option<Ring>, queue: &Queue, calls: &impl Calls) {
    let queue = CloseOnPanic(queue);
    if let Some(ring) = ring {
        run_ring(ring, queue.0, calls);
    }
    while let Some(request) = queue.0.pop() {
        calls.perform(request);
    }
}

/// Performs the requests of `queue` on `ring` until the queue is closed, or the system call that waits for completions
/// fails. A request stays in the queue until the ring has room for it.
fn run_ring(mut ring: Ring, queue: &Queue, calls: &impl Calls) {
    let mut finished = Vec::new();
    loop {
        start(|| queue.take(), &mut ring, calls);
        if ring.is_idle() && queue.is_closed() {
            return;
        }
        let waited = ring.wait(None, &mut finished);
        finished.drain(..).for_each(Finished::complete);
        if let Err(error) = waited {
            tracing::error!(%error, "io_uring failed");
            return abandon(ring);
        }
    }
}

/// Closes the queue if a thread panics, so that no request waits for this thread for ever.
struct CloseOnPanic<'q>(&'q Queue);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
            self.0.end_thread();
        }
    }
}

impl<C> Drop for Engine<C> {
    fn drop(&mut self) {
        self.queue.close();
        if let Kind::IoUring { event, .. } = &self.kind {
            wake(event);
        }
        // The current thread may be one of these threads: the `done` of a request may drop the last
        // reference to the device. A thread cannot join itself.
        let own = std::thread::current().id();
        let mut threads = std::mem::take(&mut *self.threads.lock());
        let count = threads.len();
        threads.retain(|thread| thread.thread().id() != own);
        if self.queue.wait_ended(count - threads.len(), CLOSE_TIMEOUT) {
            // After the join, the threads no longer keep the file open.
            for thread in threads {
                // If the thread panicked, the panic was already reported.
                let _ = thread.join();
            }
        }
    }
}

/// Wakes the background thread.
fn wake(event: &OwnedFd) {
    // The write fails only if the event is already signalled.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

impl<C> Debug for Engine<C> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
