//! What is wrong with operations, or with a replay of them.

use super::Operation;
use std::io;

/// Operations cannot be read, recorded or replayed, or a replay went another way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read operations: {0}")]
    Read(io::Error),
    /// There is not even the first line.
    #[error("the file of operations is empty")]
    Empty,
    /// A line that is not as the format says.
    #[error("line {line} of the operations: {source}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Another version of the format.
    #[error("operations of version {0} are not known: this program reads version 1")]
    Version(u32),
    /// A path that is no text.
    #[error("line {0} of strace's output: a path that is not UTF-8")]
    NotText(u64),
    /// A call that changes files in a way that there is no operation for.
    #[error("line {line} of strace's output: {call} is not recorded")]
    Call {
        /// Its number, from 1.
        line: u64,
        /// The call's name.
        call: String,
    },
    /// The volume failed.
    #[error("the volume failed: {0}")]
    Volume(#[from] larder::Error),
    /// An operation is about a file that is not open.
    #[error("operation {0}: the file is not open")]
    NotOpen(usize),
    /// An operation returned something else than was recorded.
    #[error(
        "operation {number} of user {user}, {operation:?}: returned {returned}, recorded was {recorded}"
    )]
    Differs {
        /// Whose.
        user: u32,
        /// Its place, from 1.
        number: usize,
        /// The operation.
        operation: Box<Operation>,
        /// What was recorded.
        recorded: i64,
        /// What it returned.
        returned: i64,
    },
}
