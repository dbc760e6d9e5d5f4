//! Threads that receive requests from /dev/fuse.
//!
//! Model: each receiver answers the requests that it receives, one after the other. A request that would wait for the
//! device is [passed](super::passing) to a worker, with these exceptions, in which the receiver itself waits:
//!
//! - The request is large (usually a write), and enough other receivers remain free. Passing the request would copy its
//!   data.
//! - The request is not small, and copying it would raise the total size of copies above [`MAX_PASSED_BYTES`].
//! - The mount is read-only, another receiver is idle, and the request does not end when its program is killed
//!   ([`Ending::Never`]). This avoids waking a worker.
//! - The session has no workers.
//!
//! # Invariants
//! 1. On a read-only mount with several receivers or workers, at least one receiver does not wait for the device. A
//!    receiver waits only if `idle` counts another one. When the last idle receiver takes a request, `idle` becomes 0,
//!    so this receiver must not wait: if its request would wait, it passes the request to a worker.
//! 2. On a writable mount with several receivers, at least one receiver other than the [follower](Role::Follower) does
//!    not wait for the device, unless no further copy of a request fits into [`MAX_PASSED_BYTES`]. `waiting` counts the
//!    receivers with permission to wait, including the follower. The follower alone does not suffice, because it shares
//!    the processor of the program that sends requests.
//!
//! # Memory
//! If no further copy of a request fits into [`MAX_PASSED_BYTES`], all receivers may wait. Further requests then stay
//! in the kernel, and take no memory of the server. This cannot deadlock: each receiver waits only for the device, or
//! for a lock whose holder waits for the device, so it continues when the device has answered. An `LSEEK` of a writable
//! mount waits until other requests are answered ([`Handler::waits_for_kernel`]). But it is small, so it is always
//! passed, and it holds no lock meanwhile.

use super::device::{Connection, Received};
use super::handler::{Arrival, Ending, Handler, Outcome, Waiting, arrive};
use super::parking::{Parking, Role};
use super::passing::{Copied, Passed, Passing, reply_bytes};
use super::reply_memory::{with_receiver_memory, with_worker_memory};
use crate::operations::Answer;
use crate::protocol::handshake::DATA_BYTES;
use crate::protocol::{Body, Header, Malformed, Request};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The memory for the headers of a request, in bytes.
const HEADER_BYTES: usize = 4096;
/// The minimum argument length of a large request, in bytes. See [`Receivers::permit`].
const LARGE_BYTES: usize = 256 << 10;
/// The maximum memory for the copies of passed requests, in bytes, not counting [small](SMALL_BYTES) requests. It has
/// room for about one request of the maximum size for each of 16 workers, the default of `threads=`.
const MAX_PASSED_BYTES: usize = 16 << 20;
/// The maximum argument length of a small request, in bytes. Small requests may be passed in any case: a copy of this
/// length takes less memory than the thread of the program that waits for the reply.
const SMALL_BYTES: usize = 4096;

/// What the receivers of a session share.
#[derive(Debug)]
pub(super) struct Receivers {
    pub(super) handler: Arc<dyn Handler>,
    /// Passes to workers the requests that would wait for the device. It is `None` on a read-only mount with
    /// `threads=1`, unless the transport is `io_uring`.
    pub(super) passing: Option<Arc<Passing>>,
    /// Decides which receivers wait for requests. It is `None` on a read-only mount, or with a single receiver.
    pub(super) parking: Option<Parking>,
    /// The number of receivers that receive a request, or wait for one in the kernel.
    pub(super) idle: AtomicUsize,
    /// While `waiting` is at least this, only the follower is permitted to wait.
    pub(super) max_waiting: usize,
    /// The number of receivers, including the follower, that have permission to wait for the device now.
    pub(super) waiting: AtomicUsize,
    /// The memory for copies of passed requests, in bytes. Small requests are not counted.
    pub(super) passed_bytes: Arc<AtomicUsize>,
}

/// The permission of one receiver to wait for the device, counted in [`Receivers::waiting`].
struct Permission<'a>(&'a AtomicUsize);

impl Drop for Permission<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The memory for the copy of a passed request, counted in [`Receivers::passed_bytes`].
#[derive(Debug)]
struct PassedBytes {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for PassedBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

impl Receivers {
    /// Receives and answers requests from `connection` until the volume is unmounted.
    pub(super) fn serve(&self, connection: &Arc<Connection>) -> io::Result<()> {
        let parking = self.parking.as_ref();
        let parking = parking.map(|parking| (parking, parking.choose_role()));
        let mut memory = vec![0; DATA_BYTES as usize + HEADER_BYTES];
        let mut has_tried = false;
        loop {
            if let Some((parking, role)) = parking {
                parking.wait(role, has_tried, connection);
            }
            self.idle.fetch_add(1, Relaxed);
            let received = connection.receive(&mut memory);
            self.idle.fetch_sub(1, Relaxed);
            let received = received?;
            has_tried = received == Received::Nothing;
            let len = match received {
                Received::Request(len) => len,
                Received::Nothing => continue,
                Received::Unmounted => return Ok(()),
            };
            let (header, argument) = Header::parse(&memory[..len])
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let timing = arrive(header.opcode);
            if let Some((parking, role)) = parking {
                parking.begin(role, header.caller.thread);
            }
            let is_follower = parking.is_some_and(|(_, role)| role == Role::Follower);
            let arrival = Arrival::new(header, argument, timing);
            self.answer(connection, arrival, argument, is_follower);
        }
    }

    /// Returns whether the calling receiver may wait for the device while it answers `request`.
    fn waiting(&self, request: Result<Request<'_>, Malformed>) -> Waiting {
        // On a writable mount, usually only one receiver receives requests. The others are parked.
        let is_replaced = self.parking.is_none() && self.idle.load(Relaxed) > 0;
        let cannot_be_ended =
            || request.is_ok_and(|request| self.handler.ending(&request) == Ending::Never);
        if self.passing.is_none() || is_replaced && cannot_be_ended() {
            Waiting::Allowed
        } else {
            Waiting::Refused
        }
    }

    /// Permits the calling receiver to wait for the device while it answers a request whose argument has
    /// `argument_bytes`. Returns `None` if the argument is shorter than [`LARGE_BYTES`]. A receiver that is not the
    /// follower also gets `None` while `waiting` is at least `max_waiting`, so that another one is left besides the
    /// follower. `waiting` includes the follower, so one other receiver fewer may wait while the follower waits.
    ///
    /// Passing a large write copies its data, which takes about as long as the write itself. If the write waits for
    /// long, the watcher of `parking` wakes another receiver for the next requests.
    fn permit(&self, argument_bytes: usize, is_follower: bool) -> Option<Permission<'_>> {
        if argument_bytes < LARGE_BYTES {
            return None;
        }
        let one_more = |waiting| (is_follower || waiting < self.max_waiting).then_some(waiting + 1);
        let is_permitted = self.waiting.try_update(Relaxed, Relaxed, one_more);
        is_permitted.ok().map(|_| Permission(&self.waiting))
    }

    /// Counts the memory for the copy of a request whose argument has `argument_bytes`. Returns `None` if the copies
    /// would take more than [`MAX_PASSED_BYTES`].
    fn count_passed(&self, argument_bytes: usize) -> Option<PassedBytes> {
        let is_small = argument_bytes <= SMALL_BYTES;
        let bytes = if is_small { 0 } else { argument_bytes };
        let more = |all: usize| (all + bytes <= MAX_PASSED_BYTES).then_some(all + bytes);
        let counted = self.passed_bytes.try_update(Relaxed, Relaxed, more);
        counted.ok().map(|_| PassedBytes {
            bytes,
            all: Arc::clone(&self.passed_bytes),
        })
    }

    fn answer(
        &self,
        connection: &Arc<Connection>,
        arrival: Arrival,
        argument: &[u8],
        is_follower: bool,
    ) {
        let request = Request::parse(arrival.header, argument);
        let permission = self.permit(argument.len(), is_follower);
        let waiting = match permission {
            Some(_) => Waiting::Allowed,
            None => self.waiting(request),
        };
        let answer_here = |waiting| {
            let handler = &*self.handler;
            with_receiver_memory(|memory| {
                answer(handler, connection, arrival, request, waiting, memory)
            })
        };
        let is_answered = answer_here(waiting);
        drop(permission);
        let (false, Some(passing)) = (is_answered, &self.passing) else {
            return;
        };
        if let Some(counted) = self.count_passed(argument.len()) {
            passing.pass(Box::new(FromDevice {
                handler: Arc::clone(&self.handler),
                connection: Arc::clone(connection),
                arrival,
                argument: argument.to_vec(),
                _counted: counted,
            }));
        } else {
            answer_here(Waiting::Allowed);
        }
    }
}

/// A request that was received from /dev/fuse.
#[derive(Debug)]
struct FromDevice {
    handler: Arc<dyn Handler>,
    connection: Arc<Connection>,
    arrival: Arrival,
    argument: Vec<u8>,
    _counted: PassedBytes,
}

impl Passed for FromDevice {
    fn arrival(&mut self) -> Arrival {
        self.arrival
    }

    fn request(&mut self) -> Result<Request<'_>, Malformed> {
        Request::parse(self.arrival.header, &self.argument)
    }

    fn copy(&mut self) -> Copied {
        Copied {
            header: self.arrival.header,
            structure: None,
            rest: std::mem::take(&mut self.argument),
        }
    }

    fn answer(self: Box<Self>) {
        let request = Request::parse(self.arrival.header, &self.argument);
        with_worker_memory(reply_bytes(request), |memory| {
            let waiting = Waiting::Allowed;
            let (handler, connection) = (&*self.handler, &self.connection);
            answer(handler, connection, self.arrival, request, waiting, memory);
        });
    }

    fn reply(self: Box<Self>, answer: Answer<&[u8]>) {
        reply(&*self.handler, &self.connection, &self.arrival, answer);
    }
}

/// Answers a request and sends the reply, which is composed in `memory`. Returns false if the request would wait and
/// `waiting` is [`Waiting::Refused`].
fn answer(
    handler: &dyn Handler,
    connection: &Connection,
    arrival: Arrival,
    request: Result<Request<'_>, Malformed>,
    waiting: Waiting,
    memory: &mut [u8],
) -> bool {
    let mut body = Body::new(memory);
    let outcome = handler.answer(&arrival.header, request, waiting, &mut body);
    let len = body.len();
    match outcome {
        Outcome::Reply(answer) => {
            let answer = answer.map(|()| &memory[..len]);
            reply(handler, connection, &arrival, answer);
        }
        Outcome::NoReply => handler.record(&arrival, arrival.timing.end(), Ok(&[])),
        Outcome::WouldWait => return false,
    }
    true
}

/// Sends a reply, and then records the request.
fn reply(handler: &dyn Handler, connection: &Connection, arrival: &Arrival, answer: Answer<&[u8]>) {
    let measured = arrival.timing.end();
    connection.reply(arrival.header.unique, answer);
    handler.record(arrival, measured, answer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Operation;
    use crate::protocol::abi::opcode;
    use std::os::fd::OwnedFd;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{self, ThreadId};

    /// A handler whose requests all wait. Only `STATFS` requests end if their program is killed.
    #[derive(Debug)]
    struct TestHandler {
        /// Receives the ID of each thread that answers a request.
        answered: Sender<ThreadId>,
    }

    impl Handler for TestHandler {
        fn answer(
            &self,
            _: &Header,
            _: Result<Request<'_>, Malformed>,
            waiting: Waiting,
            _: &mut Body<'_>,
        ) -> Outcome {
            if waiting == Waiting::Refused {
                return Outcome::WouldWait;
            }
            // If a test checks no answers, it has dropped the receiving end of the channel.
            let _ = self.answered.send(thread::current().id());
            Outcome::NoReply
        }

        fn ending(&self, request: &Request<'_>) -> Ending {
            match request.operation {
                Operation::Statfs => Ending::Always,
                _ => Ending::Never,
            }
        }
    }

    fn receivers(parking: Option<Parking>) -> Receivers {
        receivers_with(parking, channel().0)
    }

    fn receivers_with(parking: Option<Parking>, answered: Sender<ThreadId>) -> Receivers {
        let handler: Arc<dyn Handler> = Arc::new(TestHandler { answered });
        Receivers {
            passing: Some(Arc::new(Passing::new(&handler, 1))),
            handler,
            parking,
            idle: AtomicUsize::new(0),
            max_waiting: 2,
            waiting: AtomicUsize::new(0),
            passed_bytes: Arc::default(),
        }
    }

    fn waiting(receivers: &Receivers, opcode: u32) -> Waiting {
        receivers.waiting(Request::parse(Header::of_root(opcode), b""))
    }

    #[test]
    fn receiver_waits_only_while_another_one_receives() {
        let receivers = receivers(None);
        assert_eq!(waiting(&receivers, opcode::READLINK), Waiting::Refused);
        receivers.idle.store(1, Relaxed);
        assert_eq!(waiting(&receivers, opcode::READLINK), Waiting::Allowed);
    }

    #[test]
    fn receiver_does_not_wait_for_a_request_that_can_be_ended() {
        let receivers = receivers(None);
        receivers.idle.store(1, Relaxed);
        assert_eq!(waiting(&receivers, opcode::STATFS), Waiting::Refused);
    }

    #[test]
    fn receiver_does_not_wait_if_the_others_are_parked() {
        let receivers = receivers(Some(Parking::start()));
        receivers.idle.store(1, Relaxed);
        assert_eq!(waiting(&receivers, opcode::READLINK), Waiting::Refused);
    }

    #[test]
    fn large_requests_leave_a_receiver_that_is_not_the_follower() {
        let receivers = receivers(Some(Parking::start()));
        assert!(receivers.permit(LARGE_BYTES - 1, true).is_none());
        let first = receivers.permit(LARGE_BYTES, false);
        let second = receivers.permit(LARGE_BYTES, false);
        assert!(first.is_some() && second.is_some());
        assert!(receivers.permit(LARGE_BYTES, false).is_none());
        assert!(receivers.permit(LARGE_BYTES, true).is_some());
        drop(first);
        assert!(receivers.permit(LARGE_BYTES, false).is_some());
    }

    #[test]
    fn receiver_answers_a_request_itself_if_copies_take_too_much_memory() {
        let (sender, answered) = channel();
        let receivers = receivers_with(None, sender);
        let (_, writer) = std::io::pipe().unwrap();
        let connection = Arc::new(Connection(OwnedFd::from(writer)));
        let answer = |argument_bytes| {
            let (header, argument) = (Header::of_root(opcode::WRITE), vec![0; argument_bytes]);
            let timing = arrive(header.opcode);
            let arrival = Arrival::new(header, &argument, timing);
            receivers.answer(&connection, arrival, &argument, false);
            answered.recv().unwrap()
        };
        let this_thread = thread::current().id();
        let all = receivers.count_passed(MAX_PASSED_BYTES).unwrap();
        assert_eq!(answer(SMALL_BYTES + 1), this_thread);
        assert_ne!(answer(SMALL_BYTES), this_thread);
        drop(all);
        assert_ne!(answer(SMALL_BYTES + 1), this_thread);
        // The memory is free again when the worker has dropped the request.
        while receivers.passed_bytes.load(Relaxed) > 0 {
            thread::yield_now();
        }
    }
}
