//! The limit of windows, so that the windows of all streams fit into the cache.
//!
//! Model: none in Linux, whose windows grow to `read_ahead_kb` however many streams share the
//! memory. With enough streams, pages are then evicted before they are read (thrashing). A volume
//! knows the size of its cache and the active streams, and a policy accepts any limit. Therefore
//! the limit of every stream is a third of its share of the cache: one third for a window that is
//! read, one for a window in flight, and one for pages that have been read already.
//!
//! Active streams are counted by turns. A turn ends when as many pages were read ahead as the cache
//! has, because the pages of a stream from before are then evicted. A stream takes part in a turn
//! by reading ahead. The streams of the previous turn, or of this one if they are more, share the
//! cache. Files that are open and idle, or read at random, take no share.
//!
//! Locking: one lock, taken when a window is read.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The smallest limit: 16 KiB in pages of 4 KiB, the minimum window of Linux 2.6.20.
const MIN_PAGES: u32 = 4;

/// The number of windows that a stream may have in the cache.
const WINDOWS: u64 = 3;

/// The limit of windows, by the number of active streams.
#[derive(Debug)]
pub(crate) struct Shares {
    cache_pages: u64,
    max_pages: u32,
    limit_pages: AtomicU32,
    turn: Mutex<Turn>,
}

#[derive(Debug)]
struct Turn {
    /// The number of the turn, from 1.
    number: u64,
    /// Pages read ahead in this turn.
    pages: u64,
    streams: u64,
    /// Streams of the previous turn.
    streams_before: u64,
}

/// The last turn in which a stream took part; 0 before the first.
#[derive(Debug, Default)]
pub(crate) struct LastTurn(AtomicU64);

impl Shares {
    /// Creates the shares of a cache of `cache_pages`. No window gets more than `max_pages`.
    pub(crate) fn new(cache_pages: u32, max_pages: u32) -> Self {
        let shares = Self {
            cache_pages: cache_pages.into(),
            max_pages,
            limit_pages: AtomicU32::new(max_pages),
            turn: Mutex::new(Turn {
                number: 1,
                pages: 0,
                streams: 0,
                streams_before: 0,
            }),
        };
        shares.set_limit(1);
        shares
    }

    /// Returns the largest window that a stream may have now.
    pub(crate) fn limit_pages(&self) -> u32 {
        self.limit_pages.load(Relaxed)
    }

    /// Records that `pages` were read ahead for the stream of `last_turn`.
    pub(crate) fn read_ahead(&self, last_turn: &LastTurn, pages: u32) {
        let mut turn = self.turn.lock();
        if turn.pages >= self.cache_pages {
            *turn = Turn {
                number: turn.number + 1,
                pages: 0,
                streams: 0,
                streams_before: turn.streams,
            };
        }
        turn.pages += u64::from(pages);
        if last_turn.0.swap(turn.number, Relaxed) != turn.number {
            turn.streams += 1;
        }
        self.set_limit(turn.streams.max(turn.streams_before));
    }

    fn set_limit(&self, streams: u64) {
        let share = self.cache_pages / (WINDOWS * streams.max(1));
        let limit = u32::try_from(share).unwrap_or(u32::MAX).max(MIN_PAGES);
        self.limit_pages.store(limit.min(self.max_pages), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_shrinks_with_each_stream_and_grows_back_two_turns_after_they_stop() {
        let shares = Shares::new(1200, 256);
        assert_eq!(shares.limit_pages(), 256);
        let streams: Vec<LastTurn> = (0..10).map(|_| LastTurn::default()).collect();
        for stream in &streams {
            shares.read_ahead(stream, 60);
        }
        assert_eq!(shares.limit_pages(), 40);
        for stream in &streams {
            shares.read_ahead(stream, 60);
        }
        // The turn is full. One stream continues alone.
        for _ in 0..20 {
            shares.read_ahead(&streams[0], 60);
            assert_eq!(shares.limit_pages(), 40);
        }
        shares.read_ahead(&streams[0], 60);
        assert_eq!(shares.limit_pages(), 256);
    }

    #[test]
    fn limit_stays_between_minimum_and_maximum() {
        let shares = Shares::new(30, 256);
        assert_eq!(shares.limit_pages(), 10);
        for _ in 0..100 {
            shares.read_ahead(&LastTurn::default(), 1);
        }
        assert_eq!(shares.limit_pages(), MIN_PAGES);
        assert_eq!(Shares::new(1 << 20, 2).limit_pages(), 2);
        assert_eq!(Shares::new(1 << 20, 0).limit_pages(), 0);
    }
}
