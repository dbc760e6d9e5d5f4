//! Where the present comes from: the system, or a test that wants to know it.

use crate::Timestamp;
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Tells the time that changes are stamped with.
pub trait Clock: Debug + Send + Sync {
    /// The present.
    fn now(&self) -> Timestamp;

    /// Waits: at open, where others may have to be given time to show that they live.
    fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }
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
