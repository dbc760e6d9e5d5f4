//! The number of pages whose requests are not complete.
//!
//! Locking: `ending` is locked only while the count becomes 0, and by a thread that waits for that.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::time::Instant;

/// The maximum number of pages in flight is the number of pages in the cache divided by this
/// constant. Above the maximum, the device counts as congested, and asynchronous readahead stops.
/// Otherwise, pages that are read ahead would evict pages that are in use.
const CACHE_SHARE: usize = 4;

/// The pages of all requests that are not complete.
#[derive(Debug)]
pub(super) struct InFlight {
    pages: AtomicUsize,
    ending: Mutex<()>,
    none_left: Condvar,
    most_pages: usize,
}

/// The pages of one request. They count until this is dropped.
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

    /// Counts `pages` pages until the result is dropped.
    pub(super) fn count(self: &Arc<Self>, pages: usize) -> Counted {
        self.pages.fetch_add(pages, Relaxed);
        Counted {
            all: Arc::clone(self),
            pages,
        }
    }

    /// Returns whether too many pages are in flight, so that asynchronous readahead must stop.
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
            // With the lock, so that a thread between its check and its wait is woken.
            let _ending = self.all.ending.lock();
            self.all.none_left.notify_all();
        }
    }
}
