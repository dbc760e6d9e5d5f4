//! Limits the readahead windows, so that the windows of all streams fit into the cache.
//!
//! A stream is the readahead state of one reader of a file. Linux has no counterpart to this limit:
//! its windows grow to `read_ahead_kb` regardless of the number of streams that share the memory.
//! With enough streams, Linux evicts pages before they are used (thrashing). Larder divides its
//! cache equally among the active streams, and limits a window to a third of the share of a stream.
//! The first third is for the window that the reader uses, the second for the next window, which is
//! being read, and the last for pages that have been used already.
//!
//! Active streams are counted in periods called turns. A turn ends when as many pages have been
//! read ahead as fit into the cache, because all pages from before the turn have then been evicted.
//! Each stream that reads ahead during a turn is counted once in that turn. The number of active
//! streams is the count of the current turn or of the previous turn, whichever is larger. Files
//! that are idle or are read at random are not counted.
//!
//! Locking: one lock protects the counts. It is held briefly for each window that is read ahead.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The minimum of the limit, unless the configured maximum is lower. It is 16 KiB with pages of 4
/// KiB: the minimum window of Linux 2.6.20.
const MIN_PAGES: u32 = 4;

/// The number of windows of the maximum size that fit into the share of a stream.
const WINDOWS: u64 = 3;

/// The limit of windows, computed from the number of active streams.
#[derive(Debug)]
pub(crate) struct Shares {
    cache_pages: u64,
    max_pages: u32,
    limit_pages: AtomicU32,
    turn: Mutex<Turn>,
}

#[derive(Debug)]
struct Turn {
    /// The number of the turn. The first turn has number 1.
    number: u64,
    /// The number of pages that were read ahead in this turn.
    pages: u64,
    streams: u64,
    /// The number of streams that read ahead in the previous turn.
    streams_before: u64,
}

/// The number of the last turn in which a stream read ahead, or 0 if there is none.
#[derive(Debug, Default)]
pub(crate) struct LastTurn(AtomicU64);

impl Shares {
    /// Creates the limit for a cache of `cache_pages` pages. The limit is never more than
    /// `max_pages`.
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

    /// Returns the current maximum size of a window.
    pub(crate) fn limit_pages(&self) -> u32 {
        self.limit_pages.load(Relaxed)
    }

    /// Records that `pages` pages were read ahead for the stream to which `last_turn` belongs, and
    /// updates the limit.
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
