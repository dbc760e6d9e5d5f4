//! What is recorded of the requests to a server.

use crate::counters::Counters;
use crate::pace::Pace;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the requests to a server are recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// The counts of the image. They include the requests for a profile.
    pub(crate) counters: Arc<Counters>,
    /// The delay and the bandwidth of the link to the server.
    pub(crate) pace: Arc<Pace>,
}

impl Meter {
    /// Returns a meter for the requests to another server. It has the same counts, but its own measures of the link.
    pub(crate) fn of_other_server(&self) -> Self {
        Self {
            counters: Arc::clone(&self.counters),
            pace: Arc::default(),
        }
    }

    /// Records the time from a request to the head of its reply, which arrived now.
    pub(crate) fn count_latency(&self, latency: Duration) {
        self.counters.count_latency(latency);
        self.pace.count_delay(latency, Instant::now());
    }

    /// Records that `bytes` bytes arrived now.
    pub(crate) fn count_fetched(&self, bytes: u64) {
        self.counters.count_fetched(bytes);
        self.pace.count_bytes(bytes, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_server_shares_the_counts_and_not_the_pace() {
        let meter = Meter::default();
        let other = meter.of_other_server();
        for _ in 0..2 {
            other.count_latency(Duration::from_hours(1));
            other.count_fetched(7);
        }
        let counts = meter.counters.to_counts();
        assert_eq!(counts.fetched_bytes, 14);
        assert!(counts.latency_p50_us.is_some());
        assert_eq!(meter.pace.delay(), None);
        assert_eq!(other.pace.delay(), Some(Duration::from_hours(1)));
    }
}
