//! The interface between the transports and the code that answers the requests.

use crate::node::NodeId;
use crate::operations::Answer;
use crate::protocol::abi::opcode;
use crate::protocol::{Body, Header, Malformed, Request};
use larder::block::timing::{Measured, Sampler, Timing};
use std::fmt::{self, Debug, Formatter};

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
    /// Never. Other programs may wait for the same content, for example for a page of the kernel's cache. Or the kernel
    /// would not send the request again, for example if it writes back data.
    Never,
    /// Until a worker begins to answer the request. Then the request may have changed something, and the
    /// kernel must know the result.
    UntilBegun,
    /// Until the request is answered. If a worker has already begun, its answer is
    /// [discarded](Handler::discard).
    Always,
}

/// The number of operations that are sampled separately. Operations with larger numbers are sampled as number 0.
const OPERATIONS: usize = 64;

thread_local! {
    static SAMPLERS: [Sampler; OPERATIONS] = const { [const { Sampler::new() }; OPERATIONS] };
}

/// The header of a request, and when the request arrived in this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) header: Header,
    /// The file whose content the request reads or changes.
    pub(crate) target: NodeId,
    pub(crate) timing: Timing,
}

impl Arrival {
    /// Creates the arrival of a request. `structure` begins with the structure of its operation.
    pub(super) fn new(header: Header, structure: &[u8], timing: Timing) -> Self {
        Self {
            header,
            target: header.target(structure),
            timing,
        }
    }
}

/// Returns the timing of a request that arrives now. It decides whether the request is measured: each fsync is, and a
/// sample of each other operation.
pub(super) fn arrive(opcode: u32) -> Timing {
    match opcode {
        opcode::FSYNC | opcode::FSYNCDIR => Timing::begin(),
        _ => SAMPLERS.with(|samplers| {
            let sampler = samplers.get(opcode as usize).unwrap_or(&samplers[0]);
            sampler.begin()
        }),
    }
}

/// Answers the requests of a session. A handler refers to all state of a mount. [`Debug`] is not a supertrait: the table
/// of the trait's functions would keep the code that formats all this state in the program.
pub(crate) trait Handler: Send + Sync {
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

    /// Records a request for the statistics. `measured` is the time from its arrival until immediately before the answer
    /// was sent, if it is measured. `answer` contains the body of the reply. If the operation has no reply, the body is
    /// empty.
    fn record(&self, _arrival: &Arrival, _measured: Option<Measured>, _answer: Answer<&[u8]>) {}

    /// Releases everything to which the kernel had references. This is called when the connection has
    /// ended.
    fn end(&self) {}
}

impl Debug for dyn Handler {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_operations_are_measured_among_many_others() {
        let is_measured = |opcode| arrive(opcode).end().is_some();
        let mut all_are = true;
        for _ in 0..20 {
            // So many that not all of them are measured in any period.
            for _ in 0..5000 {
                all_are &= is_measured(opcode::GETATTR);
            }
            assert!(is_measured(opcode::MKDIR));
            assert!(is_measured(u32::MAX));
        }
        assert!(!all_are);
        assert!((0..5000).all(|_| is_measured(opcode::FSYNC) && is_measured(opcode::FSYNCDIR)));
    }
}
