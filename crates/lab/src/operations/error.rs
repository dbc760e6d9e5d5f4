//! Errors of operations and of their replay.

use super::operation::Operation;
use std::io;

/// Errors of reading, recording and replaying operations.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the file of operations: {0}")]
    Read(io::Error),
    /// The file is empty: the first line is missing.
    #[error("the file of operations is empty")]
    Empty,
    /// A line violates the format.
    #[error("invalid operation on line {line}: {source}")]
    Line {
        /// Line number, from 1.
        line: u64,
        /// The cause.
        source: serde_json::Error,
    },
    /// An unsupported version of the format.
    #[error("unsupported version {0} of the file of operations; supported: 1")]
    Version(u32),
    /// A path that is not valid text.
    #[error("line {0} of the output of strace: the path is not UTF-8")]
    NotText(u64),
    /// A call that changes files in a way that no operation represents.
    #[error("line {line} of the output of strace: {call} cannot be recorded")]
    Call {
        /// Line number, from 1.
        line: u64,
        /// The name of the call.
        call: String,
    },
    /// The volume failed.
    #[error("the volume failed: {0}")]
    Volume(#[from] larder::Error),
    /// An operation refers to a file that is not open.
    #[error("operation {0}: the file is not open")]
    NotOpen(usize),
    /// An operation did not return the recorded result.
    #[error(
        "operation {number} of user {user}, {operation:?}, returned {returned}; the recorded result is {recorded}"
    )]
    Differs {
        /// The user.
        user: u32,
        /// The operation's number, from 1.
        number: usize,
        /// The operation.
        operation: Box<Operation>,
        /// The recorded result.
        recorded: i64,
        /// The actual result.
        returned: i64,
    },
}
