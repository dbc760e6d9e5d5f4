//! Passes requests to [workers](crate::workers), and ends requests whose programs are killed.
//!
//! # Model
//! On a file system of the kernel, a thread that waits for a page ends if a fatal signal arrives (`SIGKILL`, or
//! Ctrl-C for most programs), and ignores other signals. On a FUSE mount, the thread waits for the reply, whatever
//! the signal.
//!
//! Therefore, if a fatal signal is pending for the thread that waits for a passed request, the server replies with
//! `EINTR`: the request *ends*. [`Handler::ending`] decides which requests can end. If a worker has already begun to
//! answer a request that ends, the worker continues, because most waits for a device cannot be interrupted. The
//! answer of the worker is discarded. Other signals do not end a request, because programs do not expect `EINTR` from
//! operations on a file. `SA_RESTART` would not help: it does not restart a system call for which the server replied
//! with `EINTR`.
//!
//! The kernel's notification of a signal, `INTERRUPT`, is not enough. The kernel sends none for direct reads of a
//! read-only mount, which are asynchronous. It sends only one for each request, perhaps for a signal that is not
//! fatal. And if all receivers are busy, the server does not receive it. Therefore the server does not use
//! `INTERRUPT`. A thread of the server checks, once per [`CHECK_INTERVAL`], the requests that were passed before the
//! previous check. The thread starts when a request that can end is passed. It stops after [`IDLE_CHECKS`] consecutive
//! checks that find no such request.
//!
//! # Requests that wait for other requests
//! On a writable mount, the answer to an `LSEEK` waits until the kernel has written back the file's dirty pages. For
//! this, the server must answer the kernel's writes, which may also be passed to workers. Therefore a separate thread
//! answers all `LSEEK` requests of such a mount ([`Handler::waits_for_kernel`]), so that they never occupy the workers
//! that the writes need.
//!
//! # Locking
//! One lock, which is not held while a request is answered or /proc is read.

use super::handler::{Arrival, Ending, Handler, Outcome, Waiting};
use super::reply_memory::{SMALL_REPLY_BYTES, with_worker_memory};
use crate::operations::Answer;
use crate::procfs::has_own_proc;
use crate::protocol::{Body, Header, Malformed, Request};
use crate::workers::Workers;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The interval between two checks of the passed requests.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The checking thread stops after this number of consecutive checks that find no request.
const IDLE_CHECKS: u32 = 20;
/// The bit of `SIGKILL` in a set of signals. If a signal ends a process without a core dump, the kernel makes
/// `SIGKILL` pending for each of its threads.
const KILL_BIT: u64 = 1 << 8;

/// A request that is passed to a worker.
pub(super) trait Passed: Send {
    /// Returns the header of the request, and when the request arrived.
    fn arrival(&mut self) -> Arrival;

    /// Parses the request.
    fn request(&mut self) -> Result<Request<'_>, Malformed>;

    /// Returns a copy of the request for the worker to answer. After this, `self` can only send the reply.
    fn copy(&mut self) -> Copied;

    /// Answers the request, sends the reply, and records the request.
    fn answer(self: Box<Self>);

    /// Sends the reply, and records the request.
    fn reply(self: Box<Self>, answer: Answer<&[u8]>);
}

/// A copy of a request. Requests that carry file content are never copied.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) header: Header,
    /// The structure of the operation, if it is not at the start of `rest`.
    pub(super) structure: Option<[u8; 128]>,
    pub(super) rest: Vec<u8>,
}

impl Copied {
    fn request(&self) -> Result<Request<'_>, Malformed> {
        match &self.structure {
            Some(structure) => Request::parse_split(self.header, structure, &self.rest),
            None => Request::parse(self.header, &self.rest),
        }
    }
}

/// Returns the length of the memory that the reply to `request` needs, in bytes.
pub(super) fn reply_bytes(request: Result<Request<'_>, Malformed>) -> usize {
    let of_data = request.ok().and_then(|request| request.reply_bytes());
    of_data.unwrap_or(SMALL_REPLY_BYTES)
}

/// Passes the requests of a session to workers. Dropping this waits until all requests are answered.
#[derive(Debug)]
pub(super) struct Passing {
    workers: Workers,
    /// The thread for requests that wait for other requests.
    last: Workers,
    handler: Arc<dyn Handler>,
    pending: Arc<Mutex<Pending>>,
}

/// The passed requests that can end.
#[derive(Default)]
struct Pending {
    /// The requests, by request number.
    requests: HashMap<u64, EndableRequest>,
    /// Whether the checks have been started. Stays true if /proc cannot be used: then, no further attempt is
    /// made.
    is_checked: bool,
    /// The number of checks so far.
    checks: u64,
    /// The number of consecutive checks that found no request.
    idle_checks: u32,
}

/// A passed request that can end.
struct EndableRequest {
    /// The ID of the thread that waits for the reply.
    thread: u32,
    /// The number of checks before the request was passed.
    check: u64,
    passed: Box<dyn Passed>,
}

impl Passing {
    /// Creates a pool of at most `threads` workers, which answer requests with `handler`.
    pub(super) fn new(handler: &Arc<dyn Handler>, threads: usize) -> Self {
        Self {
            workers: Workers::new(threads),
            last: Workers::new(1),
            handler: Arc::clone(handler),
            pending: Arc::default(),
        }
    }

    /// Passes a request to a worker.
    pub(super) fn pass(&self, mut passed: Box<dyn Passed>) {
        let Header { unique, caller, .. } = passed.arrival().header;
        let request = passed.request();
        let ending = request.map_or(Ending::Never, |request| self.handler.ending(&request));
        let workers = match request {
            Ok(request) if self.handler.waits_for_kernel(&request) => &self.last,
            _ => &self.workers,
        };
        if ending == Ending::Never {
            return workers.run(move || passed.answer());
        }
        let handler = Arc::clone(&self.handler);
        let copy = (ending == Ending::Always).then(|| passed.copy());
        let must_start = self.pending.lock().insert(unique, caller.thread, passed);
        if must_start {
            start_checks(&self.pending);
        }
        let pending = Arc::clone(&self.pending);
        workers.run(move || match copy {
            Some(copy) => answer_copy(&*handler, &pending, &copy),
            None => {
                if let Some(passed) = take(&pending, unique) {
                    passed.answer();
                }
            }
        });
    }
}

impl Pending {
    /// Adds a request. Returns whether the caller must [start](start_checks) the checks.
    fn insert(&mut self, unique: u64, thread: u32, passed: Box<dyn Passed>) -> bool {
        let request = EndableRequest {
            thread,
            check: self.checks,
            passed,
        };
        self.requests.insert(unique, request);
        !std::mem::replace(&mut self.is_checked, true)
    }
}

/// Starts the thread that checks the passed requests. If no thread can be started, the next request tries again. If
/// /proc does not show the server's PID namespace, no check is started, and no request ends.
fn start_checks(pending: &Arc<Mutex<Pending>>) {
    if !has_own_proc() {
        return;
    }
    // A weak reference, so that the thread does not keep the connection open after the session has ended.
    let weak = Arc::downgrade(pending);
    let check = move || {
        loop {
            thread::sleep(CHECK_INTERVAL);
            if !weak.upgrade().is_some_and(|pending| check(&pending)) {
                break;
            }
        }
    };
    let name = "larder-killed".to_owned();
    if let Err(error) = thread::Builder::new().name(name).spawn(check) {
        tracing::debug!(%error, "cannot check which programs are killed");
        pending.lock().is_checked = false;
    }
}

/// Removes a request from `pending`, and returns it. Returns `None` if it has ended.
fn take(pending: &Mutex<Pending>, unique: u64) -> Option<Box<dyn Passed>> {
    let request = pending.lock().requests.remove(&unique);
    request.map(|request| request.passed)
}

/// Answers a copied request. If the request ends meanwhile, discards the answer.
fn answer_copy(handler: &dyn Handler, pending: &Mutex<Pending>, copy: &Copied) {
    let unique = copy.header.unique;
    if !pending.lock().requests.contains_key(&unique) {
        return;
    }
    let request = copy.request();
    with_worker_memory(reply_bytes(request), |memory| {
        let mut body = Body::new(memory);
        let outcome = handler.answer(&copy.header, request, Waiting::Allowed, &mut body);
        let len = body.len();
        let body = &memory[..len];
        let Outcome::Reply(answer) = outcome else {
            unreachable!("only requests that have a reply are copied");
        };
        match take(pending, unique) {
            Some(passed) => passed.reply(answer.map(|()| body)),
            None if answer.is_ok() => handler.discard(&copy.header, body),
            None => {}
        }
    });
}

/// Ends those requests that were passed before the previous check and whose programs are killed. Returns whether
/// another check is due.
fn check(pending: &Mutex<Pending>) -> bool {
    let requests: Vec<_> = {
        let mut pending = pending.lock();
        let checks = pending.checks;
        pending.checks += 1;
        let requests = pending.requests.iter();
        requests
            .filter(|(_, request)| request.check < checks)
            .map(|(&unique, request)| (unique, request.thread))
            .collect()
    };
    for (unique, thread) in requests {
        if is_killed(thread)
            && let Some(passed) = take(pending, unique)
        {
            passed.reply(Err(Errno::INTR));
        }
    }
    let mut pending = pending.lock();
    pending.idle_checks = if pending.requests.is_empty() {
        pending.idle_checks + 1
    } else {
        0
    };
    pending.is_checked = pending.idle_checks < IDLE_CHECKS;
    pending.is_checked
}

/// Returns whether a fatal signal is pending for a thread. Returns false if the thread is not in /proc.
fn is_killed(thread: u32) -> bool {
    thread != 0
        && std::fs::read_to_string(format!("/proc/{thread}/status")).is_ok_and(|status| {
            let signals = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
            let signals = signals.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
            signals.is_some_and(|signals| signals & KILL_BIT != 0)
        })
}

impl Debug for Pending {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("requests", &self.requests.len())
            .field("is_checked", &self.is_checked)
            .finish_non_exhaustive()
    }
}
