//! Where the present comes from: the system, or a test that wants to know it.

use crate::Timestamp;
use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time that changes are stamped with.
pub trait Clock: Debug + Send + Sync {
    /// The present.
    fn now(&self) -> Timestamp;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // Before 1970 it stands still.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }
}
