//! The page cache: file data, found by inode number and page index.
//!
//! # Model
//! `filemap_get_folio` and `filemap_add_folio` over the page hash of Linux 2.4. A page is either
//! being read or uptodate. An uptodate page can be dirty, and then stays in the cache until it is
//! [clean](PageCache::set_clean). A page here is a frame: 4 KiB, or a block if that is larger. As
//! in Linux, metadata blocks ([`buffer`](crate::buffer)) are stored in pages of the device, so that
//! both use one pool and one reclaim.
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
//! Busy: only [`NewPage`] may write the bytes, or [`LockedPage`], which is created only when no
//! thread has the page pinned any more. Uptodate: a thread that pins the page may read them. Vacant
//! and free: they are not accessed.
//!
//! # Writing to a page
//! An uptodate page is [locked](PageCache::lock), which waits for its readers and excludes new
//! ones. It is then changed in place, and marked dirty. A page that is not cached is inserted as
//! for a read, and filled with its new contents. A thread that writes pages to the device holds
//! them pinned, which prevents changes.
//!
//! # Reading a page
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
//!         // Uptodate now, or its read failed: look it up again.
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
//! For each frame, 32 bytes for the slot and, with Larder's own sizes, 4 to 7 for buckets.

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
