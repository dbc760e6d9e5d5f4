//! Measures the durations of requests for a readahead policy that estimates the device.

use larder_cache::page::ReadaheadCounts;
use larder_readahead::{Balance, Ticket};
use std::sync::Arc;
use std::time::Instant;

/// A request that the device performs. If this value is dropped before the request is complete, the duration of the
/// request is not recorded.
#[derive(Debug)]
pub(super) struct Measured {
    balance: Arc<Balance>,
    ticket: Option<Ticket>,
    submitted: Instant,
}

impl Measured {
    /// Starts to measure a request for `pages` pages.
    pub(super) fn new(balance: &Arc<Balance>, pages: u32) -> Self {
        Self {
            balance: Arc::clone(balance),
            ticket: Some(balance.submitted(pages)),
            submitted: Instant::now(),
        }
    }

    /// Records that the request is complete. `counts` are the current counts of the page cache.
    pub(super) fn complete(mut self, counts: ReadaheadCounts) {
        if let Some(ticket) = self.ticket.take() {
            self.balance.completed(ticket, self.submitted.elapsed());
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
