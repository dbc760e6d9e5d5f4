//! The source of the current time: the system clock, or a clock that a test controls.

use crate::Timestamp;
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

/// A source of the current time for the timestamps of changes.
pub trait Clock: Debug + Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Sleeps for `time`. Called when a volume with multiple-mount protection is opened for
    /// writing: a host that is already using the image changes the protection block during this
    /// time.
    fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}
