//! The clock with which images are opened for writing. It prints a note before it waits.

use larder::{Clock, SystemClock, Timestamp};
use larder_console::print_note;
use std::time::Duration;

/// A [`SystemClock`] that prints why it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportingClock;

impl Clock for ReportingClock {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn wait(&self, time: Duration) {
        print_note(&format!(
            "waiting {} s to check whether another host has mounted the image",
            time.as_secs_f64().ceil()
        ));
        SystemClock.wait(time);
    }
}
