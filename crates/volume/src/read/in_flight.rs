//! Counts the pages in flight: the pages whose requests to the device are not complete.
//!
//! Locking: a thread locks `ending` to wait until the count is 0. A thread that has changed the count
//! to 0 also locks `ending`, to notify the waiting threads.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::time::Instant;

/// The device counts as congested if the number of pages in flight exceeds the number of pages in
/// the cache divided by this constant. Asynchronous readahead then stops. If it continued, the
/// pages that are read ahead would evict pages that are in use.
const CACHE_SHARE: usize = 4;

/// The number of pages in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pages: AtomicUsize,
    ending: Mutex<()>,
    none_left: Condvar,
    most_pages: usize,
}

/// The pages of one request. They count as in flight until this value is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    all: Arc<InFlight>,
    pages: usize,
}

impl InFlight {
    /// Creates the count for a cache of `cache_pages` pages.
    pub(super) fn new(cache_pages: usize) -> Arc<Self> {
        Arc::new(Self {
            pages: AtomicUsize::new(0),
            ending: Mutex::new(()),
            none_left: Condvar::new(),
            most_pages: cache_pages / CACHE_SHARE,
        })
    }

    /// Counts `pages` pages as in flight until the result is dropped.
    pub(super) fn count(self: &Arc<Self>, pages: usize) -> Counted {
        self.pages.fetch_add(pages, Relaxed);
        Counted {
            all: Arc::clone(self),
            pages,
        }
    }

    /// Returns whether so many pages are in flight that asynchronous readahead must stop.
    pub(super) fn is_congested(&self) -> bool {
        self.pages.load(Relaxed) > self.most_pages
    }

    /// Waits until no page is in flight, or until `end`. Returns the number of pages in flight.
    pub(super) fn wait(&self, end: Option<Instant>) -> usize {
        let mut ending = self.ending.lock();
        loop {
            let pages = self.pages.load(Acquire);
            if pages == 0 {
                return 0;
            }
            match end {
                None => self.none_left.wait(&mut ending),
                Some(end) => {
                    if self.none_left.wait_until(&mut ending, end).timed_out() {
                        return self.pages.load(Acquire);
                    }
                }
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.all.pages.fetch_sub(self.pages, AcqRel) == self.pages {
            // Notify with the lock held. Otherwise, a thread that has checked the count and is
            // about to wait would miss the notification.
            let _ending = self.all.ending.lock();
            self.all.none_left.notify_all();
        }
    }
}
