//! Measures the durations of requests for a readahead policy that estimates the device.

use larder_cache::page::ReadaheadCounts;
use larder_readahead::{Balance, Ticket};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The instant from which the times of all requests are measured.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn now() -> Duration {
    START.elapsed()
}

/// A request that the device performs. If this value is dropped before the request is complete, the duration of the
/// request is not recorded.
#[derive(Debug)]
pub(super) struct Measured {
    balance: Arc<Balance>,
    ticket: Option<Ticket>,
}

impl Measured {
    /// Starts to measure a request for `pages` pages.
    pub(super) fn new(balance: &Arc<Balance>, pages: u32) -> Self {
        Self {
            balance: Arc::clone(balance),
            ticket: Some(balance.submitted(pages, now())),
        }
    }

    /// Records that the request is complete. `counts` are the current counts of the page cache.
    pub(super) fn complete(mut self, counts: ReadaheadCounts) {
        if let Some(ticket) = self.ticket.take() {
            self.balance.completed(ticket, now());
        }
        self.balance
            .record_waste(counts.pages_ahead, counts.pages_wasted);
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.balance.abandoned();
        }
    }
}
