//! The kinds of back ends.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// How a device performs requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackEnd {
    /// By `io_uring`.
    IoUring,
    /// By blocking calls on several threads of the device.
    Threads,
    /// One after the other, on the thread that submits them.
    #[default]
    Calls,
}

impl BackEnd {
    /// All back ends.
    pub const ALL: [Self; 3] = [Self::IoUring, Self::Threads, Self::Calls];

    /// Returns the name that [`FromStr`] parses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
            Self::Calls => "calls",
        }
    }
}

impl Display for BackEnd {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for an unknown name of a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown back end; the back ends are io_uring, threads and calls")]
pub struct UnknownBackEnd;

impl FromStr for BackEnd {
    type Err = UnknownBackEnd;

    fn from_str(name: &str) -> Result<Self, UnknownBackEnd> {
        let mut all = Self::ALL.into_iter();
        all.find(|back_end| back_end.name() == name)
            .ok_or(UnknownBackEnd)
    }
}
