//! The requests to a simulated device, and their completions.

use std::ops::Add;
use std::time::Duration;

/// Virtual time: nanoseconds since the simulation began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualTime(pub u64);

impl VirtualTime {
    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for VirtualTime {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// A read that a reader waits for.
    Read,
    /// Readahead: no reader waits for these bytes yet.
    ReadAhead,
    /// Write-back: no caller waits for it.
    Write,
}

/// A contiguous range of bytes to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The direction, and whether a reader waits.
    pub kind: RequestKind,
    /// The number of the process that submits the request. CFQ serves reads by process.
    pub process: u32,
    /// The first byte.
    pub offset_bytes: u64,
    /// The length; at least 1.
    pub len_bytes: u64,
}

/// Identifies one submitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request.
    pub id: RequestId,
    /// The time of its completion.
    pub at: VirtualTime,
}
