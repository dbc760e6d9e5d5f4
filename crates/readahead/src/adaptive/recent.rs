//! The last requests of a file that belong to no stream, and the patterns that they form.
//!
//! Model: the table of `TaP` (Li et al., 2008) and the trend of Leap (Al Maruf and Chowdhury, 2020). A request becomes a
//! stream only if it forms a pattern with earlier requests. Random requests are therefore kept apart from the streams,
//! and cannot displace them.
//!
//! | pattern | condition |
//! |---|---|
//! | forward | the request starts where an earlier one ends |
//! | backward | the request ends where an earlier one starts |
//! | strided | the request and three earlier ones are at equal distances; the last of these three is among the last [`PREVIOUS_WITHIN`] requests |
//!
//! Leap takes the difference that most of the last requests have, and therefore finds one stride. This module searches
//! for pairs with the same difference, and so also finds the strides of several readers, whose requests alternate.
//!
//! Cost: at most [`MOST`] requests of 16 bytes for each file. A request that forms no pattern is compared with at most
//! `MOST + 2 * PREVIOUS_WITHIN * EARLIER_WITHIN` others.

use super::balance::EntryShare;
use super::stream::Shape;

/// The number of requests.
const MOST: usize = 256;

/// The number of requests that each file can keep, whatever the other files have.
const LEAST: usize = 8;

/// The previous request of a strided pattern must be among this number of latest requests.
const PREVIOUS_WITHIN: usize = 8;

/// The two requests before the previous request of a strided pattern must be among this number of latest requests.
const EARLIER_WITHIN: usize = 32;

/// A request: its first page and the page after its last page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The last requests, in a ring.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    requests: Vec<Pages>,
    /// The position of the oldest request, if the ring is full.
    oldest: usize,
}

impl Recent {
    /// Adds a request. If the ring is full, or if it already has [`LEAST`] requests and `entries` does not grow, the oldest
    /// request is removed.
    pub(super) fn push(&mut self, pages: Pages, entries: &mut EntryShare) {
        let len = self.requests.len();
        // A request can be appended only if the latest one is at the end.
        if len < LEAST || len < MOST && self.oldest == 0 && entries.grow() {
            self.requests.push(pages);
        } else {
            self.requests[self.oldest] = pages;
            self.oldest = (self.oldest + 1) % len;
        }
    }

    /// Returns the pattern that `pages` forms with earlier requests. `missing` is the first page of `pages` that is
    /// missing. `overlaps` is true if the request ends inside its last page, which an earlier request of a
    /// backward stream has then read.
    pub(super) fn pattern(&mut self, pages: Pages, missing: u64, overlaps: bool) -> Option<Shape> {
        let is_before = |other: &Pages| other.end == missing || other.end == pages.start;
        if let Some(at) = self.requests.iter().position(is_before) {
            self.forget(at);
            return Some(Shape::Forward);
        }
        let is_after = |other: &Pages| {
            other.start == pages.end || (overlaps && Some(other.start) == pages.end.checked_sub(1))
        };
        if let Some(at) = self.requests.iter().position(is_after) {
            self.forget(at);
            return Some(Shape::Backward);
        }
        self.stride(pages).map(|step| Shape::Strided { step })
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.requests.capacity() * size_of::<Pages>()
    }

    /// Makes a request form no further pattern.
    fn forget(&mut self, at: usize) {
        self.requests[at] = Pages {
            start: u64::MAX,
            end: u64::MAX,
        };
    }

    /// Returns the distance at which three earlier requests precede `pages`.
    fn stride(&self, pages: Pages) -> Option<i64> {
        let starts = || self.latest().map(|request| request.start);
        starts().take(PREVIOUS_WITHIN).find_map(|last| {
            let step = i64::try_from(i128::from(pages.start) - i128::from(last)).ok()?;
            let earlier = |steps: i64| {
                let start = last.checked_add_signed(step.checked_mul(-steps)?)?;
                starts().take(EARLIER_WITHIN).find(|other| *other == start)
            };
            let is_apart = step.unsigned_abs() > pages.end - pages.start;
            (is_apart && earlier(1).is_some() && earlier(2).is_some()).then_some(step)
        })
    }

    /// Returns the requests from the latest to the oldest.
    fn latest(&self) -> impl Iterator<Item = Pages> + '_ {
        let (before, after) = self.requests.split_at(self.oldest);
        before.iter().rev().chain(after.iter().rev()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::balance::Balance;
    use super::*;
    use std::sync::Arc;

    fn entries() -> EntryShare {
        EntryShare::new(Arc::new(Balance::unshared()))
    }

    fn pattern(earlier: &[(u64, u64)], start: u64, end: u64) -> Option<Shape> {
        let mut recent = Recent::default();
        for &(start, end) in earlier {
            recent.push(Pages { start, end }, &mut entries());
        }
        recent.pattern(Pages { start, end }, start, false)
    }

    #[test]
    fn pattern_of_requests_is_recognised_among_others() {
        let forward = [(100, 104), (900, 904), (300, 304)];
        assert_eq!(pattern(&forward, 104, 108), Some(Shape::Forward));
        assert_eq!(pattern(&forward, 96, 100), Some(Shape::Backward));
        assert_eq!(pattern(&forward, 105, 108), None);
        let step = Shape::Strided { step: 50 };
        let strided = [(100, 104), (150, 154), (200, 204)];
        assert_eq!(pattern(&strided, 250, 254), Some(step));
        assert_eq!(pattern(&strided, 251, 255), None);
        let alternating = [(100, 104), (7, 9), (150, 154), (77, 79), (200, 204), (1, 2)];
        assert_eq!(pattern(&alternating, 250, 254), Some(step));
        let down = [(250, 254), (200, 204), (150, 154)];
        let step = Shape::Strided { step: -50 };
        assert_eq!(pattern(&down, 100, 104), Some(step));
    }

    #[test]
    fn ring_keeps_the_latest_requests() {
        let mut recent = Recent::default();
        let mut entries = entries();
        for number in 0..10_000 {
            let start = number * 1000 + (number * number) % 7;
            let pages = Pages {
                start,
                end: start + 1,
            };
            recent.push(pages, &mut entries);
        }
        assert_eq!(recent.requests.len(), MOST);
        let latest: Vec<u64> = recent.latest().map(|pages| pages.start / 1000).collect();
        assert!(latest.into_iter().eq((10_000 - MOST as u64..10_000).rev()));
    }
}
