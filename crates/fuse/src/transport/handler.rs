//! The interface between the transports and what answers the requests.

use crate::operations::Answer;
use crate::protocol::{Body, Header, Malformed, Request};
use std::fmt::Debug;

/// Whether the thread that answers a request may wait for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Allowed,
    /// A request that would wait is not answered, so that it can be passed to a worker.
    Refused,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The request is answered with the body, or with an error.
    Reply(Answer<()>),
    /// The request has no reply.
    NoReply,
    /// The request would wait, and [`Waiting::Refused`] was given. The request has changed nothing.
    WouldWait,
}

/// When the reply to a request that was passed to a worker is `EINTR` because the program is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Never: other programs can wait for the same content, or the request is not repeated.
    Never,
    /// Until a worker begins the request: it changes something, and the kernel must know the result.
    UntilBegun,
    /// Until it is answered. The answer is then [discarded](Handler::discard).
    Always,
}

/// Answers the requests of a session.
pub(crate) trait Handler: Debug + Send + Sync {
    /// Answers a parsed request: writes the body of the reply to `body`, which must be empty.
    fn answer(
        &self,
        header: &Header,
        request: Result<Request<'_>, Malformed>,
        waiting: Waiting,
        body: &mut Body<'_>,
    ) -> Outcome;

    /// Returns when a request that would wait may end if its program is killed.
    fn ending(&self, _request: &Request<'_>) -> Ending {
        Ending::Never
    }

    /// Undoes what an answered request has counted. `body` is the body of its reply, which is not sent.
    fn discard(&self, _header: &Header, _body: &[u8]) {}

    /// Releases what the kernel refers to. This is called when the connection has ended.
    fn end(&self) {}
}
