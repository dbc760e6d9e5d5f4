//! The interface between the transports and the code that answers the requests.

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

/// The period in which a request that was passed to a worker can end early. If its program is killed
/// in this period, the reply is `EINTR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Never. Other programs may wait for the same content, as for a page of the kernel's cache, or the
    /// kernel would not send the request again, as for data that it writes back.
    Never,
    /// Until a worker begins to answer the request. Then the request may have changed something, and the
    /// kernel must know the result.
    UntilBegun,
    /// Until the request is answered. If a worker has already begun, its answer is
    /// [discarded](Handler::discard).
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

    /// Returns the period in which a request that would wait can end early, if its program is killed.
    fn ending(&self, _request: &Request<'_>) -> Ending {
        Ending::Never
    }

    /// Returns whether the answer waits until other requests of the kernel are answered.
    fn waits_for_kernel(&self, _request: &Request<'_>) -> bool {
        false
    }

    /// Undoes what the answer to a request has counted. `body` is the body of the reply, which is not
    /// sent.
    fn discard(&self, _header: &Header, _body: &[u8]) {}

    /// Releases everything to which the kernel had references. This is called when the connection has
    /// ended.
    fn end(&self) {}
}
