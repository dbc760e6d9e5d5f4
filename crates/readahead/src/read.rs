//! The input of a policy: a page of a request, the reason for the call, and the resident pages.

use crate::{Folio, PageIndex, Window};

/// The reason why the policy is consulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trigger {
    /// The page is about to be looked up. Only policies that [can use hits without a
    /// marker](crate::Policy::can_use_hits) are called for this reason.
    Access,
    /// The page was looked up and is neither resident nor in flight.
    Miss,
    /// The page is resident or in flight, and carried the marker. The caller has removed the marker,
    /// and does not restore it even if the policy returns no window. Therefore only one reader
    /// requests the next window.
    Marker,
}

/// The input of one decision: a page of a reader's request, and the reason why the policy is consulted
/// about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    /// The reason why the policy is consulted.
    pub trigger: Trigger,
    /// The index of the page, which must be within the request.
    pub index: PageIndex,
    /// Index of the first page of the request. It equals `index` at the start of a request.
    pub request_start: PageIndex,
    /// Number of pages in the request, from `request_start`; 0 is treated as 1.
    pub request_pages: u32,
    /// Whether the requested bytes end inside a page, not at the end of a page. If the request extends
    /// past the end of the file: whether the file ends inside a page.
    pub ends_inside_page: bool,
    /// Whether the request is a page fault of one page, not a read.
    pub by_fault: bool,
    /// Number of pages in the file. A partial last page counts as one.
    pub file_pages: u64,
    /// Whether the queue of the device is so long that asynchronous readahead should be deferred.
    pub congested: bool,
}

impl Read {
    /// Returns the number of pages of the request from `index` to its end; at least 1.
    #[must_use]
    pub fn rest_pages(&self) -> u32 {
        let done = self.index.0.saturating_sub(self.request_start.0);
        let rest = u64::from(self.request_pages).saturating_sub(done).max(1);
        u32::try_from(rest).unwrap_or(u32::MAX)
    }

    /// Returns the last page of the request.
    #[must_use]
    pub fn last_page(&self) -> PageIndex {
        self.request_start
            .plus(u64::from(self.request_pages.max(1) - 1))
    }

    /// Returns the window that contains the rest of the request and has no asynchronous part.
    pub(crate) fn as_requested(&self) -> Window {
        Window::unmarked(self.index, self.rest_pages())
    }
}

/// The resident pages of a file. A page in flight counts as resident, because it must not be
/// requested again.
///
/// For each window, a policy queries at most as many pages as a window can have. The policy `off`
/// queries no pages. The policy `ondemand` queries pages only for faults.
pub trait Residency {
    /// Returns true if the page is resident or in flight.
    fn is_resident(&self, page: PageIndex) -> bool;

    /// Returns the folio that contains a resident page. In a page cache without large folios, the
    /// folio consists of that page.
    #[doc(hidden)] // Only the page cache of tests/kernel implements it; others use the default.
    fn folio(&self, page: PageIndex) -> Folio {
        Folio {
            start: page,
            order: 0,
        }
    }

    /// Returns the first page that is not resident among the `scan_pages` pages from `from` on. Returns
    /// `None` if all of them are resident.
    fn next_hole(&self, from: PageIndex, scan_pages: u32) -> Option<PageIndex> {
        (0..u64::from(scan_pages))
            .map_while(|step| from.0.checked_add(step))
            .map(PageIndex)
            .find(|page| !self.is_resident(*page))
    }

    /// Returns how many pages directly before `before` are resident without a gap, at most
    /// `scan_pages`.
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
    fn next_hole_is_found_only_within_the_scan() {
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
    fn rest_of_a_request_starts_at_the_given_page() {
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
