//! Readahead policies as pure state machines (no I/O, no clock, no allocation), and the [`driver`]
//! that carries out their windows.
//!
//! A reader that finds a page missing, or finds the page that carries the marker, passes one
//! [`Read`] to the [`Policy`] and gets back the [`Windows`] to bring in. The driver fetches the
//! pages, sets and clears the marker, and waits. It is generic over cache and device, so the same
//! code runs in a mount, in a simulator and in the tests of this crate.
//!
//! | policy | model | consulted about | state |
//! |---|---|---|---|
//! | [`Off`] | | missing pages | none |
//! | [`Legacy`] | Linux 2.6.20 | every request, missing pages | a current and an ahead window |
//! | [`OnDemand`] | Linux 2.6.23 | missing and marked pages | one window |
//! | [`Modern`] | Linux 6.18 | missing and marked pages | one window, and it searches the page cache |
//!
//! All units are pages, of the size that the caller's page cache has. `docs/design/readahead.md`
//! describes how the generations differ, and names the sources.
//!
//! # The window
//!
//! ```text
//!            |<------------------ size ------------------>|
//!            |                    |<----- async_size ---->|
//!   ---------+--------------------+-----------------------+--------> page index
//!            ^                    ^                        ^
//!          start            marker: reading it      readahead index: the next
//!                           triggers the next       window starts here
//!                           window ahead of time
//! ```
//!
//! The pages before the marker are those that the reader will need first. The pages from the marker
//! on are the asynchronous part. A read of the marked page triggers the next window while there are
//! still `async_size` pages to consume, so the device and the reader work in parallel. [`Legacy`],
//! which is older than the marker, sees every request instead.
//!
//! # One decision
//!
//! ```
//! use larder_readahead::{FileState, PageIndex, PolicyName, Read, Trigger, DEFAULT_MAX_PAGES};
//! # use larder_readahead::Residency;
//! # struct Cache;
//! # impl Residency for Cache { fn is_resident(&self, _: PageIndex) -> bool { false } }
//! # let cache = Cache;
//! let policy = "ondemand".parse::<PolicyName>()?.policy();
//! let mut state = FileState::new(DEFAULT_MAX_PAGES);
//!
//! // Page 0 was looked up for a read of two pages, and is not resident.
//! let read = Read {
//!     trigger: Trigger::Miss,
//!     index: PageIndex(0),
//!     request_start: PageIndex(0),
//!     request_pages: 2,
//!     ends_inside_page: false,
//!     by_fault: false,
//!     file_pages: 1000,
//!     congested: false,
//! };
//! let windows = policy.decide(&mut state, &read, &cache);
//! let window = windows.first().expect("a first read opens a window");
//! assert_eq!((window.start, window.size, window.async_size), (PageIndex(0), 4, 2));
//! assert_eq!(window.marker(), Some(PageIndex(2)));
//! # Ok::<(), larder_readahead::UnknownPolicy>(())
//! ```
//!
//! # Faults
//!
//! A page fault is a [`Read`] of one page with [`by_fault`](Read::by_fault) set. [`Legacy`] and
//! [`OnDemand`] read around a page that a fault misses: they read the largest window, with that
//! page in its middle, until misses exceed hits by more than 100. To count the hits, they are
//! consulted about every page that is faulted. Such a miss does not change their windows for reads.
#![forbid(unsafe_code)]

mod advice;
mod by_name;
pub mod driver;
mod folio;
mod legacy;
mod modern;
mod off;
mod ondemand;
mod policy;
mod read;
mod read_around;
mod sizes;
mod state;
mod window;

pub use advice::{Advice, pages_inside, pages_touched};
pub use folio::Folio;
pub use legacy::Legacy;
pub use modern::Modern;
pub use off::Off;
pub use ondemand::OnDemand;
pub use policy::{Policy, PolicyName, UnknownPolicy};
pub use read::{Read, Residency, Trigger};
pub use state::{
    DEFAULT_MAX_BYTES, DEFAULT_MAX_PAGES, FileState, MAX_PAGES_LIMIT, max_pages_from_bytes,
};
pub use window::{PageIndex, Window, Windows};
