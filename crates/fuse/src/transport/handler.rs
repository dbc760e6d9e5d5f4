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

    /// Releases what the kernel refers to. This is called when the connection has ended.
    fn end(&self) {}
}
