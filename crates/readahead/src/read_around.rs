//! Read-around: the windows of page faults under `legacy` and `ondemand`.
//!
//! Model: when a page is faulted, neither the number nor the order of the pages that will be needed is
//! known. Therefore the largest window is read, with the faulted page in its middle:
//!
//! ```text
//!        |<-- max/2 -->|<-- max/2 -->|
//!   -----+-------------+-------------+-----> page index
//!        ^             ^
//!      start         the page that a fault missed
//! ```
//!
//! A fault that finds its page in the page cache counts as a hit, and any other fault counts as a miss.
//! If the misses exceed the hits by more than [`LOTS_OF_MISSES`], read-around does not seem to help.
//! While this is so, a missing page is read alone. A fault that misses its page does not change the
//! windows for reads of the same open file.

use crate::{Read, Residency, Trigger, Window, Windows};

/// Read-around stops when the misses exceed the hits by more than this number.
pub(crate) const LOTS_OF_MISSES: u32 = 100;

/// The number of hits and misses of the faults on one open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    misses: u32,
    hits: u32,
}

impl State {
    /// Returns the window to read for the fault `read`. The read-around stops if the misses exceed the hits by more
    /// than `lots_of_misses`.
    pub(crate) fn decide(
        &mut self,
        read: &Read,
        max_pages: u32,
        lots_of_misses: u32,
        resident: &dyn Residency,
    ) -> Windows {
        match read.trigger {
            Trigger::Miss => self
                .miss(read, max_pages, lots_of_misses)
                .clip(read.file_pages)
                .into(),
            Trigger::Access => {
                // The policy is consulted before the lookup. If the page is missing, it is consulted
                // again, with `Trigger::Miss`.
                if resident.is_resident(read.index) {
                    self.hits = self.hits.saturating_add(1);
                }
                Windows::NONE
            }
            Trigger::Marker => Windows::NONE,
        }
    }

    fn miss(&mut self, read: &Read, max_pages: u32, lots_of_misses: u32) -> Window {
        self.misses = self.misses.saturating_add(1);
        if max_pages == 0 || self.misses > self.hits.saturating_add(lots_of_misses) {
            return Window::alone(read.index);
        }
        Window::unmarked(read.index.minus(u64::from(max_pages / 2)), max_pages)
    }
}
