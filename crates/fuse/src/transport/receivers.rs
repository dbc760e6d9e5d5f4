//! Threads that receive requests from /dev/fuse.
//!
//! Model: each receiver answers the requests that it receives, one after the other. A request that would wait
//! for the device is passed to a [worker](super::workers).

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
            let received = connection.receive(&mut memory)?;
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

    fn answer(&self, connection: &Arc<Connection>, header: Header, argument: &[u8]) {
        // To pass on a large write would take about as long as the write, because its data would be copied. If the
        // write takes long, another receiver receives the next requests.
        let waiting = if self.workers.is_some() && argument.len() < LARGE_BYTES {
            Waiting::Refused
        } else {
            Waiting::Allowed
        };
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
