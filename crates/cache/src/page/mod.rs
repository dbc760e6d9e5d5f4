//! The page cache: file data, found by inode number and page index.
//!
//! # Model
//! `filemap_get_folio` and `filemap_add_folio` over the page hash of Linux 2.4,
//! where a page is being read or uptodate, and then perhaps dirty, which holds it in
//! place until it is [clean](PageCache::set_clean). A page here is a frame: 4 KiB, or
//! a block where that is larger. As in Linux, metadata blocks ([`buffer`](crate::buffer)) are in
//! pages too, those of the device, so that both come from one pool and one reclaim.
//!
//! # A page's life
//! ```text
//!           take          get_or_insert        complete, unlock
//!   free ---------> vacant ----------> busy <----------> uptodate
//!    ^ ^                                 |     lock         |
//!    | +---------------------------------+                  |
//!    |         read failed, or discarded                    |
//!    +------------------------------------------------------+
//!                  evicted by the clock hand: unpinned, unreferenced, clean
//! ```
//! Busy: [`NewPage`] alone may write the bytes, or [`LockedPage`], which exists only
//! when nobody has the page pinned any more. Uptodate: whoever pins it
//! may read them. Vacant and free: nobody does.
//!
//! # The way of a write
//! An uptodate page is [locked](PageCache::lock), which waits for those who look at it
//! and lets nobody else do so, changed in place, and marked dirty. A page that is not here
//! is inserted as for a read, and filled with what it is to hold. Who writes pages to the
//! device holds them pinned: that keeps changes away.
//!
//! # The way of a read
//! ```no_run
//! # use larder_cache::page::{Entry, PageCache, PageKey};
//! # fn read(_: &mut [u8]) -> std::io::Result<()> { Ok(()) }
//! # fn first_byte(pages: &PageCache, key: PageKey) -> std::io::Result<u8> {
//! loop {
//!     if let Some(page) = pages.get(key) {
//!         return Ok(page[0]);
//!     }
//!     match pages.get_or_insert(key) {
//!         Entry::Uptodate(page) => return Ok(page[0]),
//!         // Uptodate now, or its read failed: then look again, and try oneself.
//!         Entry::Busy(wait) => drop(wait.wait()),
//!         Entry::New(mut page) => {
//!             read(&mut page)?; // on failure the page is dropped: waiters wake
//!             return Ok(pages.complete(page)[0]);
//!         }
//!         // All pages are in use: read without caching.
//!         Entry::Full => {
//!             let mut bytes = vec![0; pages.page_bytes()];
//!             read(&mut bytes)?;
//!             return Ok(bytes[0]);
//!         }
//!     }
//! }
//! # }
//! ```
//!
//! # Invariants
//! Those of the pool, `pool.rs`, and of [`crate::table`].
//!
//! # Locking
//! None on a hit.
//!
//! # Cost
//! 32 bytes for the slot and, by our own sizes, 4 to 7 for buckets, a frame.

mod bytes;
mod cache;
mod flags;
mod index;
mod key;
mod memory;
mod pool;

pub use bytes::{LockedPage, NewPage, Page};
pub use cache::{Entry, Lock, PageCache, PageWait, ReadaheadCounts};
pub(crate) use index::PageIndex;
pub use key::{PAGE_WORDS, PageKey, PageLayout};
pub use pool::{Frames, FramesConfig};
