//! Read-around: the windows of page faults under the policies before `modern`.
//!
//! Model: a fault gives less information than a read, since neither its length nor an order is
//! known. So the largest window is read, with the fault in its middle, as long as that seems to
//! help:
//!
//! ```text
//!        |<-- max/2 -->|<-- max/2 -->|
//!   -----+-------------+-------------+-----> page index
//!        ^             ^
//!      start         the page that a fault missed
//! ```
//!
//! Faults that find their page count as hits, the others as misses. When misses exceed hits by more
//! than [`LOTS_OF_MISSES`], a page that a fault misses is read alone, until there are enough hits
//! again. If faults and reads share a file, faults leave the windows of its readers unchanged.

use crate::{Read, Residency, Trigger, Window, Windows};

/// Read-around stops when misses exceed hits by more than this.
const LOTS_OF_MISSES: u32 = 100;

/// The state of the faults on one open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    misses: u32,
    hits: u32,
}

impl State {
    /// Returns the window to bring in for the fault `read`.
    pub(crate) fn decide(
        &mut self,
        read: &Read,
        max_pages: u32,
        resident: &dyn Residency,
    ) -> Windows {
        match read.trigger {
            Trigger::Miss => self.miss(read, max_pages).clip(read.file_pages).into(),
            Trigger::Access => {
                // An access is reported before its page is looked up. If the page is absent, a miss
                // will follow.
                if resident.is_resident(read.index) {
                    self.hits = self.hits.saturating_add(1);
                }
                Windows::NONE
            }
            Trigger::Marker => Windows::NONE,
        }
    }

    fn miss(&mut self, read: &Read, max_pages: u32) -> Window {
        self.misses = self.misses.saturating_add(1);
        if max_pages == 0 || self.misses > self.hits.saturating_add(LOTS_OF_MISSES) {
            return Window::alone(read.index);
        }
        Window::unmarked(read.index.minus(u64::from(max_pages / 2)), max_pages)
    }
}
