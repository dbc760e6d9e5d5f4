//! The kinds of back ends.

use std::fmt::{self, Display, Formatter};

/// How a device performs requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackEnd {
    /// By `io_uring`.
    IoUring,
    /// By system calls of a number of threads.
    Threads,
    /// One after the other, on the thread that submits them.
    Calls,
}

impl Display for BackEnd {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
            Self::Calls => "calls",
        })
    }
}
