//! What a policy sees: one read, why it is asked now, and what is resident.

use crate::{Folio, PageIndex, Window};

/// Why the policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trigger {
    /// The page is about to be looked up. Only for policies that
    /// [want every page](crate::Policy::wants_every_page).
    Access,
    /// The page was looked up and is neither resident nor in flight.
    Miss,
    /// The page is resident or in flight and carries the marker. The caller takes the marker off
    /// before it asks, whatever the answer, so that one reader sets off one window.
    Marker,
}

/// One page of one read, as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    /// Why the policy is asked.
    pub trigger: Trigger,
    /// The page that it is asked about: within the request.
    pub index: PageIndex,
    /// First page of the reader's request. Equal to `index` where a new request begins.
    pub request_start: PageIndex,
    /// Pages in the reader's request, from `request_start`; 0 is taken as 1.
    pub request_pages: u32,
    /// The request, or the file before it, ends inside its last page, not with it.
    pub ends_inside_page: bool,
    /// A page fault, not a read: the request is the one page.
    pub by_fault: bool,
    /// Pages in the file, a partial last one included.
    pub file_pages: u64,
    /// The device has more queued than it should: asynchronous readahead gives way.
    pub congested: bool,
}

impl Read {
    /// Pages of the request from `index` to its end; at least 1.
    #[must_use]
    pub fn rest_pages(&self) -> u32 {
        let done = self.index.0.saturating_sub(self.request_start.0);
        let rest = u64::from(self.request_pages).saturating_sub(done).max(1);
        u32::try_from(rest).unwrap_or(u32::MAX)
    }

    /// The last page of the request.
    #[must_use]
    pub fn last_page(&self) -> PageIndex {
        self.request_start
            .plus(u64::from(self.request_pages.max(1) - 1))
    }

    /// The window of the rest of the request as it is, with nothing read ahead.
    pub(crate) fn as_asked(&self) -> Window {
        Window::unmarked(self.index, self.rest_pages())
    }
}

/// What of a file is resident. Pages in flight count as resident: nobody needs to ask for them.
///
/// For each window, a policy asks about at most as many pages as its largest window has. `off`,
/// and `ondemand` for reads, ask about none.
pub trait Residency {
    /// True if the page is resident or in flight.
    fn is_resident(&self, page: PageIndex) -> bool;

    /// The folio that holds the page, which is resident: that page alone, but in page caches with
    /// large folios.
    #[doc(hidden)] // Only the page cache of tests/kernel has any; the default is right elsewhere.
    fn folio(&self, page: PageIndex) -> Folio {
        Folio {
            start: page,
            order: 0,
        }
    }

    /// The first page at or after `from` that is not resident, among the next `scan_pages`.
    fn next_hole(&self, from: PageIndex, scan_pages: u32) -> Option<PageIndex> {
        (0..u64::from(scan_pages))
            .map_while(|step| from.0.checked_add(step))
            .map(PageIndex)
            .find(|page| !self.is_resident(*page))
    }

    /// How many pages directly before `before` are resident without a gap, at most `scan_pages`.
    fn resident_before(&self, before: PageIndex, scan_pages: u32) -> u32 {
        let run = (1..=u64::from(scan_pages))
            .map_while(|step| before.0.checked_sub(step))
            .take_while(|page| self.is_resident(PageIndex(*page)))
            .count();
        u32::try_from(run).unwrap_or(scan_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pages(&'static [u64]);

    impl Residency for Pages {
        fn is_resident(&self, page: PageIndex) -> bool {
            self.0.contains(&page.0)
        }
    }

    #[test]
    fn next_hole_within_the_scan_is_found_and_beyond_it_is_none() {
        let pages = Pages(&[4, 5, 6, 8, u64::MAX]);
        assert_eq!(pages.next_hole(PageIndex(4), 8), Some(PageIndex(7)));
        assert_eq!(pages.next_hole(PageIndex(3), 8), Some(PageIndex(3)));
        assert_eq!(pages.next_hole(PageIndex(4), 3), None);
        assert_eq!(pages.next_hole(PageIndex(u64::MAX), 8), None);
    }

    #[test]
    fn resident_before_stops_at_a_gap_the_limit_and_the_start_of_the_file() {
        let pages = Pages(&[0, 1, 2, 4, 5, 6]);
        assert_eq!(pages.resident_before(PageIndex(7), 8), 3);
        assert_eq!(pages.resident_before(PageIndex(7), 2), 2);
        assert_eq!(pages.resident_before(PageIndex(3), 8), 3);
        assert_eq!(pages.resident_before(PageIndex(4), 8), 0);
        assert_eq!(pages.resident_before(PageIndex(0), 8), 0);
    }

    #[test]
    fn rest_of_a_request_counts_from_the_page_asked_about() {
        let read = |index, start, pages| Read {
            trigger: Trigger::Miss,
            index: PageIndex(index),
            request_start: PageIndex(start),
            request_pages: pages,
            ends_inside_page: false,
            by_fault: false,
            file_pages: 100,
            congested: false,
        };
        assert_eq!(read(10, 10, 8).rest_pages(), 8);
        assert_eq!(read(15, 10, 8).rest_pages(), 3);
        assert_eq!(read(50, 10, 8).rest_pages(), 1);
        assert_eq!(read(10, 10, 0).rest_pages(), 1);
        assert_eq!(read(10, 10, 8).last_page(), PageIndex(17));
        assert_eq!(read(10, 10, 0).last_page(), PageIndex(10));
        assert_eq!(
            read(u64::MAX, u64::MAX, u32::MAX).last_page(),
            PageIndex(u64::MAX)
        );
    }
}
