//! Threads that receive requests from /dev/fuse.
//!
//! Model: each receiver answers the requests that it receives, one after the other. A request that would wait for the
//! device is [passed](super::passing) to a worker, with these exceptions, in which the receiver itself waits:
//!
//! - The request is large: passing it would copy its data.
//! - The mount is read-only, another receiver is idle, and the request does not end when its program is killed
//!   ([`Ending::Never`]). This avoids waking a worker.
//! - The session has no workers.
//!
//! # Invariants
//! 1. On a read-only mount with several receivers or workers, at least one receiver does not wait for the device. A
//!    receiver waits only if `idle` counts another one. The last receiver that `idle` counted finds a count of 0.
//!    If its request would wait, it passes the request to a worker.

use super::device::{Connection, Received};
use super::handler::{Ending, Handler, Outcome, Waiting};
use super::parking::Parking;
use super::passing::{Copied, Passed, Passing, with_reply_memory};
use crate::operations::Answer;
use crate::protocol::handshake::DATA_BYTES;
use crate::protocol::{Body, Header, Malformed, Request};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The memory for the headers of a request, in bytes.
const HEADER_BYTES: usize = 4096;
/// A request whose argument has at least this length, in bytes, is never passed to a worker.
const LARGE_BYTES: usize = 256 << 10;

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
            if let Some((parking, role)) = parking {
                parking.begin(role, header.caller.thread);
            }
            self.answer(connection, header, argument);
        }
    }

    /// Returns whether the calling receiver may wait for the device while it answers `request`, whose argument has
    /// `argument_bytes`.
    fn waiting(&self, request: Result<Request<'_>, Malformed>, argument_bytes: usize) -> Waiting {
        // On a writable mount, usually only one receiver receives requests. The others are parked.
        let is_replaced = self.parking.is_none() && self.idle.load(Relaxed) > 0;
        let cannot_be_ended =
            || request.is_ok_and(|request| self.handler.ending(&request) == Ending::Never);
        // Passing a large write would copy its data, which takes about as long as the write itself. If the write
        // waits for long, the watcher of `parking` wakes another receiver for the next requests.
        if self.passing.is_none()
            || argument_bytes >= LARGE_BYTES
            || is_replaced && cannot_be_ended()
        {
            Waiting::Allowed
        } else {
            Waiting::Refused
        }
    }

    fn answer(&self, connection: &Arc<Connection>, header: Header, argument: &[u8]) {
        let request = Request::parse(header, argument);
        let waiting = self.waiting(request, argument.len());
        let is_answered = answer(&*self.handler, connection, header, request, waiting);
        if let (false, Some(passing)) = (is_answered, &self.passing) {
            passing.pass(Box::new(FromDevice {
                connection: Arc::clone(connection),
                header,
                argument: argument.to_vec(),
            }));
        }
    }
}

/// A request that was received from /dev/fuse.
#[derive(Debug)]
struct FromDevice {
    connection: Arc<Connection>,
    header: Header,
    argument: Vec<u8>,
}

impl Passed for FromDevice {
    fn header(&mut self) -> Header {
        self.header
    }

    fn request(&mut self) -> Result<Request<'_>, Malformed> {
        Request::parse(self.header, &self.argument)
    }

    fn copy(&mut self) -> Copied {
        Copied {
            header: self.header,
            structure: None,
            rest: std::mem::take(&mut self.argument),
        }
    }

    fn answer(self: Box<Self>, handler: &dyn Handler) {
        let request = Request::parse(self.header, &self.argument);
        answer(
            handler,
            &self.connection,
            self.header,
            request,
            Waiting::Allowed,
        );
    }

    fn reply(self: Box<Self>, answer: Answer<&[u8]>) {
        self.connection.reply(self.header.unique, answer);
    }
}

/// Answers a request and sends the reply. Returns false if the request would wait and `waiting` is
/// [`Waiting::Refused`].
fn answer(
    handler: &dyn Handler,
    connection: &Connection,
    header: Header,
    request: Result<Request<'_>, Malformed>,
    waiting: Waiting,
) -> bool {
    with_reply_memory(|memory| {
        let mut body = Body::new(memory);
        let outcome = handler.answer(&header, request, waiting, &mut body);
        let len = body.len();
        match outcome {
            Outcome::Reply(answer) => {
                connection.reply(header.unique, answer.map(|()| &memory[..len]));
            }
            Outcome::NoReply => {}
            Outcome::WouldWait => return false,
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Operation;
    use crate::protocol::abi::opcode;

    /// A handler with which only `STATFS` requests end if their program is killed.
    #[derive(Debug)]
    struct NoHandler;

    impl Handler for NoHandler {
        fn answer(
            &self,
            _: &Header,
            _: Result<Request<'_>, Malformed>,
            _: Waiting,
            _: &mut Body<'_>,
        ) -> Outcome {
            unreachable!("no request is received")
        }

        fn ending(&self, request: &Request<'_>) -> Ending {
            match request.operation {
                Operation::Statfs => Ending::Always,
                _ => Ending::Never,
            }
        }
    }

    fn receivers(parking: Option<Parking>) -> Receivers {
        let handler: Arc<dyn Handler> = Arc::new(NoHandler);
        Receivers {
            passing: Some(Arc::new(Passing::new(&handler, 1))),
            handler,
            parking,
            idle: AtomicUsize::new(0),
        }
    }

    fn waiting(receivers: &Receivers, opcode: u32, argument: &[u8]) -> Waiting {
        let request = Request::parse(Header::of_root(opcode), argument);
        receivers.waiting(request, argument.len())
    }

    #[test]
    fn receiver_waits_only_while_another_one_receives() {
        let receivers = receivers(None);
        assert_eq!(waiting(&receivers, opcode::READLINK, b""), Waiting::Refused);
        receivers.idle.store(1, Relaxed);
        assert_eq!(waiting(&receivers, opcode::READLINK, b""), Waiting::Allowed);
    }

    #[test]
    fn receiver_does_not_wait_for_a_request_that_can_be_ended() {
        let receivers = receivers(None);
        receivers.idle.store(1, Relaxed);
        assert_eq!(waiting(&receivers, opcode::STATFS, b""), Waiting::Refused);
    }

    #[test]
    fn parked_receivers_do_not_replace_one_that_waits() {
        let receivers = receivers(Some(Parking::start()));
        receivers.idle.store(1, Relaxed);
        assert_eq!(waiting(&receivers, opcode::READLINK, b""), Waiting::Refused);
        let large = vec![0; LARGE_BYTES];
        assert_eq!(
            waiting(&receivers, opcode::READLINK, &large),
            Waiting::Allowed
        );
    }
}
