//! Threads that receive requests from /dev/fuse.
//!
//! Model: each receiver answers the requests that it receives, one after the other. A request that would wait
//! for the device is passed to a [worker](super::workers). On a read-only mount, this is done only if no other
//! receiver waits for requests: otherwise the receiver itself waits, and no thread has to be woken.
//!
//! # Invariants
//! 1. On a mount with several receivers or workers, at least one receiver does not wait for the device. A receiver
//!    waits only if another one is in `idle`. The last one to leave `idle` finds it empty.

use super::device::{Connection, Received};
use super::handler::{Handler, Outcome, Waiting};
use super::parking::Parking;
use super::workers::Workers;
use crate::protocol::handshake::DATA_BYTES;
use crate::protocol::{Body, Header, Request};
use larder_block::AlignedBytes;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The memory for the headers of a request, in bytes.
const HEADER_BYTES: usize = 4096;
/// The length from which on a request is not passed to a worker, in bytes.
const LARGE_BYTES: usize = 256 << 10;
/// The alignment of the memory for replies, which direct I/O requires.
const ALIGN_BYTES: usize = 4096;

thread_local! {
    /// The memory for the bodies of replies. Its pages are allocated when they are first used.
    static REPLY: RefCell<AlignedBytes> =
        RefCell::new(AlignedBytes::zeroed(DATA_BYTES as usize, ALIGN_BYTES));
}

/// What the receivers of a session share.
#[derive(Debug)]
pub(super) struct Receivers {
    pub(super) handler: Arc<dyn Handler>,
    /// Threads for requests that wait for the device. It is `None` with `threads=1`, unless the transport is
    /// `io_uring`.
    pub(super) workers: Option<Arc<Workers>>,
    /// Decides which receivers wait for requests. It is `None` on a read-only mount, and if there is only one.
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

    /// Returns whether the calling receiver may wait for the device, to answer a request with an argument of
    /// `argument_bytes`.
    fn waiting(&self, argument_bytes: usize) -> Waiting {
        // On a writable mount, usually only one receiver receives requests. The others are parked.
        let is_replaced = self.parking.is_none() && self.idle.load(Relaxed) > 0;
        // To pass on a large write would take about as long as the write, because its data would be copied. If the
        // write takes long, another receiver receives the next requests.
        if self.workers.is_none() || argument_bytes >= LARGE_BYTES || is_replaced {
            Waiting::Allowed
        } else {
            Waiting::Refused
        }
    }

    fn answer(&self, connection: &Arc<Connection>, header: Header, argument: &[u8]) {
        let waiting = self.waiting(argument.len());
        let is_answered = answer(&*self.handler, connection, header, argument, waiting);
        if let (false, Some(workers)) = (is_answered, &self.workers) {
            let (handler, connection) = (Arc::clone(&self.handler), Arc::clone(connection));
            let argument = argument.to_vec();
            workers.run(move || {
                answer(&*handler, &connection, header, &argument, Waiting::Allowed);
            });
        }
    }
}

/// Answers a request and sends the reply. Returns false if the request would wait and `waiting` is
/// [`Waiting::Refused`].
fn answer(
    handler: &dyn Handler,
    connection: &Connection,
    header: Header,
    argument: &[u8],
    waiting: Waiting,
) -> bool {
    REPLY.with_borrow_mut(|memory| {
        let mut body = Body::new(memory);
        let request = Request::parse(header, argument);
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
    use crate::protocol::Malformed;

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
    }

    fn receivers(parking: Option<Parking>) -> Receivers {
        Receivers {
            handler: Arc::new(NoHandler),
            workers: Some(Arc::new(Workers::new(1))),
            parking,
            idle: AtomicUsize::new(0),
        }
    }

    #[test]
    fn receiver_waits_only_while_another_one_receives() {
        let receivers = receivers(None);
        assert_eq!(receivers.waiting(0), Waiting::Refused);
        receivers.idle.store(1, Relaxed);
        assert_eq!(receivers.waiting(0), Waiting::Allowed);
    }

    #[test]
    fn parked_receivers_do_not_replace_one_that_waits() {
        let receivers = receivers(Some(Parking::start()));
        receivers.idle.store(1, Relaxed);
        assert_eq!(receivers.waiting(0), Waiting::Refused);
        assert_eq!(receivers.waiting(LARGE_BYTES), Waiting::Allowed);
    }
}
