//! Threads that receive requests from the rings of `io_uring`.
//!
//! Model: the kernel has a queue for each processor, and puts a request into the queue of the processor on
//! which the program runs. A queue's thread runs on the same processor: it is woken without an interrupt to
//! another processor, and finds the data in the processor's caches. One system call sends a reply and waits
//! for the next request.
//!
//! A request and its reply share an *entry*: memory that the server and the kernel use in turn. A request may
//! have to wait: for the device, for room in the journal, for write-back because too much is dirty, or for a
//! lock whose holder waits. The queue's thread [passes](super::passing) such a request to a worker, together
//! with its entry. The worker writes the reply into the entry, and returns the entry to the queue's thread.
//!
//! The kernel sends `FORGET` only through /dev/fuse, so one [receiver](super::receivers) reads from this
//! device.
//!
//! # Registration
//! The kernel passes no request to the queues before each of them has an entry. Once the reply to `INIT` has accepted
//! `io_uring`, the kernel waits for these entries. Therefore, they are registered during the mount, and one queue is
//! registered after the other ([`Queues::register`]). If the kernel refuses all entries of a queue, then no queue has
//! received a request yet. So the session can use /dev/fuse, and no request is lost
//! ([`decline`](super::ring::decline)). When each queue has an entry, the queues can receive requests. The requests
//! wait in their entries until the threads start to answer them.
//!
//! The entries of a queue are registered together, because the kernel does not give a waiting request to an entry that
//! is registered later.

use super::device::Connection;
use super::handler::{Arrival, Handler, Outcome, Waiting, arrive};
use super::passing::{Copied, Passed, Passing};
use super::policy::Watcher;
use super::reply_memory::SMALL_REPLY_BYTES;
use super::ring::{Entry, Ring, Waker};
use crate::operations::Answer;
use crate::protocol::abi::RingHeader;
use crate::protocol::handshake::DATA_BYTES;
use crate::protocol::{Body, Header, Malformed, Request};
use larder::block::timing::Timing;
use parking_lot::Mutex;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::RefCell;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// The file that lists the processors of this machine, including those that are not present yet.
const POSSIBLE_PROCESSORS: &str = "/sys/devices/system/cpu/possible";
/// The maximum number of threads. On a machine with more processors, a thread serves several queues.
const MAX_THREADS: usize = 16;
/// The intended total number of entries. [`MIN_DEPTH`] and [`MAX_DEPTH`] take precedence.
const ENTRIES: usize = 64;
/// The minimum and the maximum number of entries of a queue. All queues together need at least one entry for each
/// request that may wait for the device. If necessary, the maximum is exceeded for this.
const MIN_DEPTH: usize = 8;
const MAX_DEPTH: usize = 16;

thread_local! {
    /// The memory in which a reply of at most [`SMALL_REPLY_BYTES`] is composed. It is not composed in the entry,
    /// because the names and data of the request are stored there.
    static REPLY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The rings of a session, before their entries are registered.
#[derive(Debug)]
pub(super) struct Queues(Vec<Queue>);

/// The threads of the queues, whose entries are registered. The threads wait for [`QueueThreads::serve`]. Dropping this
/// value waits until they have ended.
#[derive(Debug)]
pub(super) struct QueueThreads {
    /// Each thread waits for one value from its channel, and then starts to answer requests. If the channel is closed
    /// without a value, the thread ends.
    starts: Vec<Sender<Serving>>,
    /// The result of the registration of each thread, and later the result of serving.
    results: Receiver<io::Result<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// What a queue's thread needs to answer requests.
#[derive(Clone, Debug)]
struct Serving {
    handler: Arc<dyn Handler>,
    passing: Arc<Passing>,
    watcher: Arc<Option<Watcher>>,
}

/// A ring, and the processors whose queues it serves.
#[derive(Debug)]
struct Queue {
    ring: Ring,
    processors: Vec<u16>,
    /// The number of entries of each processor's queue.
    depth: usize,
}

/// Entries that workers return to the thread of their ring.
#[derive(Debug)]
struct Returned {
    entries: Mutex<Vec<Entry>>,
    waker: Waker,
}

impl Returned {
    fn push(&self, entry: Entry) {
        let mut entries = self.entries.lock();
        entries.push(entry);
        if entries.len() == 1 {
            drop(entries);
            self.waker.wake();
        }
    }
}

impl Queues {
    /// Creates the rings for the queues of all processors. `waiting` is the maximum number of requests that may wait for
    /// the device at the same time: all queues together have at least this number of entries.
    ///
    /// # Errors
    /// The kernel has no `io_uring` or does not allow it, a limit is reached, or the number of processors is
    /// unknown.
    pub(super) fn new(connection: &Arc<Connection>, waiting: usize) -> io::Result<Self> {
        Self::with_data_bytes(connection, waiting, |_| DATA_BYTES as usize)
    }

    /// Creates the rings. All queues together have at least `waiting` entries. The entries of the thread with index `i` have
    /// room for `data_bytes(i)` bytes of data. The kernel refuses entries with less than [`DATA_BYTES`].
    pub(super) fn with_data_bytes(
        connection: &Arc<Connection>,
        waiting: usize,
        data_bytes: impl Fn(usize) -> usize,
    ) -> io::Result<Self> {
        let queues = queue_count()?;
        let depth = (ENTRIES / queues).clamp(MIN_DEPTH, MAX_DEPTH);
        let depth = depth.max(waiting.div_ceil(queues));
        let threads = queues.min(MAX_THREADS);
        let numbers = 0..u16::try_from(queues).map_err(io::Error::other)?;
        let queue = |thread: usize| {
            let processors: Vec<u16> = numbers.clone().skip(thread).step_by(threads).collect();
            let entries: Vec<u16> = processors
                .iter()
                .flat_map(|&queue| std::iter::repeat_n(queue, depth))
                .collect();
            Ok(Queue {
                ring: Ring::new(connection, &entries, data_bytes(thread))?,
                processors,
                depth,
            })
        };
        (0..threads).map(queue).collect::<io::Result<_>>().map(Self)
    }

    /// Starts the threads, and registers the entries of all queues, those of the first thread last.
    ///
    /// # Errors
    /// The kernel refuses all entries of a queue, or a thread cannot be started. All threads have then ended, and no
    /// queue has received a request.
    pub(super) fn register(self) -> io::Result<QueueThreads> {
        let (result, results) = channel();
        let mut threads = QueueThreads {
            starts: Vec::new(),
            results,
            threads: Vec::new(),
        };
        for (index, queue) in self.0.into_iter().enumerate().rev() {
            let (start, started) = channel();
            let result = result.clone();
            let thread = thread::Builder::new()
                .name(format!("larder-queue-{index}"))
                .spawn(move || queue.run(&started, &result))?;
            threads.starts.push(start);
            threads.threads.push(thread);
            threads.results.recv().map_err(io::Error::other)??;
        }
        Ok(threads)
    }
}

impl QueueThreads {
    /// Lets the threads answer requests until the volume is unmounted. Returns the result of each thread when it has
    /// ended.
    pub(super) fn serve(
        &mut self,
        handler: &Arc<dyn Handler>,
        passing: &Arc<Passing>,
    ) -> impl Iterator<Item = io::Result<()>> {
        let serving = Serving {
            handler: Arc::clone(handler),
            passing: Arc::clone(passing),
            watcher: Arc::new(Watcher::start()),
        };
        for start in self.starts.drain(..) {
            // Each thread waits for this value, so sending it does not fail.
            let _ = start.send(serving.clone());
        }
        self.results.iter()
    }
}

impl Drop for QueueThreads {
    fn drop(&mut self) {
        self.starts.clear();
        for thread in self.threads.drain(..) {
            // If the thread panicked, it has sent an error to `results`.
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// Registers the entries, and sends the result of the registration. Then waits for a value from `started`, answers
    /// requests until the unmount, and sends the result of serving.
    fn run(mut self, started: &Receiver<Serving>, result: &Sender<io::Result<()>>) {
        let mut received = Vec::new();
        let registered = caught(|| self.register(&mut received));
        let is_registered = registered.is_ok();
        // The result is awaited, so this does not fail.
        let _ = result.send(registered);
        if !is_registered {
            return;
        }
        if let Ok(serving) = started.recv() {
            let _ = result.send(caught(move || self.serve(received, &serving)));
        }
    }

    /// Registers the entries of one queue after the other, the first queue last. Entries that already have a
    /// request are appended to `received`.
    fn register(&mut self, received: &mut Vec<Entry>) -> io::Result<()> {
        for _ in &self.processors {
            self.ring.register(self.depth, received)?;
        }
        Ok(())
    }

    /// Answers the requests in `received` and all later ones until the volume is unmounted.
    fn serve(mut self, mut received: Vec<Entry>, serving: &Serving) -> io::Result<()> {
        self.run_on_its_processors();
        let handler = &serving.handler;
        let answered = (*serving.watcher).as_ref().map(Watcher::add_this_thread);
        let returned = Arc::new(Returned {
            entries: Mutex::default(),
            waker: self.ring.waker(),
        });
        loop {
            for mut entry in received.drain(..) {
                let timing = arrive(header(entry.parts().0).opcode);
                if answer(&**handler, &mut entry, timing, Waiting::Refused) {
                    if let Some(answered) = &answered {
                        answered.count_one();
                    }
                    self.ring.give(entry);
                    continue;
                }
                let returned = Arc::clone(&returned);
                serving.passing.pass(Box::new(FromRing {
                    handler: Arc::clone(handler),
                    entry,
                    timing,
                    returned,
                }));
            }
            if self.ring.is_ended() {
                return Ok(());
            }
            for entry in std::mem::take(&mut *returned.entries.lock()) {
                self.ring.give(entry);
            }
            self.ring.wait(&mut received)?;
        }
    }

    /// Restricts this thread to the processors of its queues. Does nothing if the thread is not allowed to run
    /// on any of them.
    fn run_on_its_processors(&self) {
        let restricted = sched_getaffinity(None).and_then(|allowed| {
            let mut set = CpuSet::new();
            for processor in self.processors.iter().map(|&number| usize::from(number)) {
                if processor < CpuSet::MAX_CPU && allowed.is_set(processor) {
                    set.set(processor);
                }
            }
            if set.count() == 0 {
                return Ok(());
            }
            sched_setaffinity(None, &set)
        });
        if let Err(error) = restricted {
            tracing::debug!("cannot choose the processors of a thread: {error}");
        }
    }
}

/// Returns the result of `part`, or an error if it panics.
fn caught(part: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let panicked = |_| Err(io::Error::other("a queue's thread panicked"));
    catch_unwind(AssertUnwindSafe(part)).unwrap_or_else(panicked)
}

/// A request in an entry of a ring.
#[derive(Debug)]
struct FromRing {
    handler: Arc<dyn Handler>,
    entry: Entry,
    timing: Timing,
    returned: Arc<Returned>,
}

impl Passed for FromRing {
    fn arrival(&mut self) -> Arrival {
        let (header, structure, _) = request(&mut self.entry);
        Arrival::new(header, structure, self.timing)
    }

    fn request(&mut self) -> Result<Request<'_>, Malformed> {
        let (header, structure, rest) = request(&mut self.entry);
        Request::parse_split(header, structure, rest)
    }

    fn copy(&mut self) -> Copied {
        let (header, structure, rest) = request(&mut self.entry);
        Copied {
            header,
            structure: Some(*structure),
            rest: rest.to_vec(),
        }
    }

    fn answer(mut self: Box<Self>) {
        let (handler, timing) = (&*self.handler, self.timing);
        answer(handler, &mut self.entry, timing, Waiting::Allowed);
        self.returned.push(self.entry);
    }

    fn reply(mut self: Box<Self>, answer: Answer<&[u8]>) {
        let measured = self.timing.end();
        let arrival = self.arrival();
        let (_, data) = self.entry.parts();
        let len = answer.map(|body| {
            data[..body.len()].copy_from_slice(body);
            body.len()
        });
        self.entry.set_reply(arrival.header.unique, len);
        self.returned.push(self.entry);
        self.handler.record(&arrival, measured, answer);
    }
}

fn header(ring_header: &RingHeader) -> Header {
    let Ok((header, _)) = Header::parse(&ring_header.header) else {
        unreachable!("the array has the size of the header");
    };
    header
}

/// Returns the request in `entry`: its header, its structure, and its names and data.
fn request(entry: &mut Entry) -> (Header, &[u8; 128], &[u8]) {
    let (ring_header, data) = entry.parts();
    let header = header(ring_header);
    let data_bytes = ring_header.data_bytes as usize;
    let names_and_data = data.get(..data_bytes).unwrap_or_default();
    (header, &ring_header.structure, names_and_data)
}

/// Answers the request in `entry`, sets the reply, and records the request. Returns false if the request would wait and
/// `waiting` is [`Waiting::Refused`].
fn answer(handler: &dyn Handler, entry: &mut Entry, timing: Timing, waiting: Waiting) -> bool {
    let (ring_header, data) = entry.parts();
    let header = header(ring_header);
    let structure = &ring_header.structure;
    let (outcome, len) = if header.wants_data() {
        // The request has no data, so the reply can use the entry's memory for data.
        let mut body = Body::new(data);
        let request = Request::parse_split(header, structure, &[]);
        let outcome = handler.answer(&header, request, waiting, &mut body);
        (outcome, body.len())
    } else {
        let data_bytes = ring_header.data_bytes as usize;
        REPLY.with_borrow_mut(|memory| {
            memory.resize(SMALL_REPLY_BYTES, 0);
            let mut body = Body::new(memory);
            let names_and_data = data.get(..data_bytes).unwrap_or_default();
            let request = Request::parse_split(header, structure, names_and_data);
            let outcome = handler.answer(&header, request, waiting, &mut body);
            let len = body.len();
            data[..len].copy_from_slice(&memory[..len]);
            (outcome, len)
        })
    };
    let answer = match outcome {
        Outcome::Reply(answer) => answer.map(|()| len),
        Outcome::NoReply => Ok(0),
        Outcome::WouldWait => return false,
    };
    let arrival = Arrival::new(header, structure, timing);
    handler.record(&arrival, timing.end(), answer.map(|len| &data[..len]));
    entry.set_reply(header.unique, answer);
    true
}

/// Returns the number of the kernel's queues: one for each processor that is present or can be added.
fn queue_count() -> io::Result<usize> {
    let list = fs::read_to_string(POSSIBLE_PROCESSORS)?;
    processors_in(list.trim())
        .filter(|&count| count > 0)
        .ok_or_else(|| io::Error::other(format!("cannot parse {POSSIBLE_PROCESSORS}: {list}")))
}

/// Returns the number of processors in a list such as `0-3,8`.
fn processors_in(text: &str) -> Option<usize> {
    let ranges = text.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    ranges.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_of_a_list_are_counted() {
        assert_eq!(processors_in("0"), Some(1));
        assert_eq!(processors_in("0-3"), Some(4));
        assert_eq!(processors_in("0-1,4,6-7"), Some(5));
        for invalid in ["", "3-1", "x", "0-"] {
            assert_eq!(processors_in(invalid), None, "{invalid}");
        }
    }
}
