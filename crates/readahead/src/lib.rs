//! Readahead policies as pure state machines (no I/O, no clock, no allocation), and the [`driver`], which
//! reads the pages that the policies select.
//!
//! When a reader finds that a page is missing, or that a page carries the marker described below, the driver
//! passes a [`Read`] to the [`Policy`]. Some policies are also consulted about other accesses, as the table
//! shows. The policy returns [`Windows`], which are runs of pages to read. The driver starts the reads, sets
//! and removes the marker, and waits for the requested page. The driver is generic over the page cache and
//! the device, so the same code runs in a mount, in a simulator and in the tests of this crate.
//!
//! | policy | model | consulted about | state |
//! |---|---|---|---|
//! | [`Off`] | | missing pages | none |
//! | [`Legacy`] | Linux 2.6.20 | every request; missing pages; every faulted page | a current and an ahead window |
//! | [`OnDemand`] | Linux 2.6.23 | missing pages; marked pages; every faulted page | one window |
//! | [`Modern`] | Linux 6.18 | missing pages; marked pages; every faulted page, but only while more faults miss than hit | one window; the policy also searches the page cache |
//! | [`Adaptive`] | the streams of a file, its device and its cache | missing pages; marked pages; waits for pages in flight; every faulted page | a table of streams for each file; a [`Balance`] for each device and cache |
//!
//! All positions and sizes are in pages of the caller's page cache. `docs/design/readahead.md` describes how
//! the policies differ, and names their sources.
//!
//! # The window
//!
//! ```text
//!            |<------------------ size ------------------>|
//!            |                    |<----- async_size ---->|
//!   ---------+--------------------+-----------------------+--------> page index
//!            ^                    ^                        ^
//!          start            marked page: the        readahead index: the next
//!                           first access triggers   window starts here
//!                           the next window
//! ```
//!
//! The marker is a flag on one page of a window (`PG_readahead` in Linux). The reader needs the pages before
//! the marked page immediately. The marked page and the pages after it are read in advance. They are the
//! asynchronous part. When the reader reaches the marked page, the driver requests the next window. At this
//! time, the reader still has `async_size` pages to consume, so the device and the reader work in parallel.
//! [`Legacy`] models a kernel without the marker. Instead, the driver consults it about every request.
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
//! A page fault is a [`Read`] of one page with [`by_fault`](Read::by_fault) set. If the page is missing,
//! [`Legacy`] and [`OnDemand`] read around it: they read the largest window, with that page in its
//! middle. While the misses of faults exceed the hits by more than 100, these policies read only the
//! missing page. So that they can count the hits, the driver also consults them about resident pages that
//! a fault accesses. A fault that misses its page does not change their windows for reads. [`Modern`] has
//! rules of its own for faults. It counts hits only while the misses of faults exceed the hits.
#![forbid(unsafe_code)]

mod adaptive;
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
mod series;
mod sizes;
mod state;
mod window;
mod windows;

pub use adaptive::{Adaptive, Balance, Ticket};
pub use advice::{Advice, pages_inside, pages_touched};
pub use folio::Folio;
pub use legacy::Legacy;
pub use modern::Modern;
pub use off::Off;
pub use ondemand::OnDemand;
pub use policy::{Policy, PolicyName, UnknownPolicy};
pub use read::{Read, Residency, Trigger};
pub use series::{Series, SeriesIter};
pub use sizes::MAX_PAGES_LIMIT;
pub use state::{DEFAULT_MAX_BYTES, DEFAULT_MAX_PAGES, FileState, max_pages_from_bytes};
pub use window::{PageIndex, Window};
pub use windows::Windows;
