//! What a simulated device is asked, and when it is done.

use std::ops::Add;
use std::time::Duration;

/// Virtual time: nanoseconds since the simulation began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualTime(pub u64);

impl VirtualTime {
    /// The time from `earlier` to this; nothing if `earlier` is later.
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

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// Somebody waits for these bytes.
    Read,
    /// Nobody waits for these bytes yet.
    ReadAhead,
    /// Write-back: nobody waits.
    Write,
}

/// A contiguous run of bytes to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Read or write, and whether somebody waits.
    pub kind: RequestKind,
    /// First byte.
    pub offset_bytes: u64,
    /// How many bytes; at least 1.
    pub len_bytes: u64,
}

/// Names one submitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which one.
    pub id: RequestId,
    /// When it was done.
    pub at: VirtualTime,
}
