//! The page cache: file data, found by inode number and page index.
//!
//! # Model
//! The cache has the operations of current Linux (`filemap_get_folio`, `filemap_add_folio`). As in Linux
//! 2.4, one hash table finds the pages of all files. The bytes of a page are in a *frame*: memory of 4
//! KiB, or of one block if blocks are larger. Frame *i* belongs to slot *i* of the table's arena. The
//! slot has the key and the state of the page. As in Linux, metadata blocks ([`buffer`](crate::buffer))
//! are cached in pages whose key names the device instead of a file. So pages and buffers share the
//! frames, and are reclaimed in the same way.
//!
//! # States of a frame
//! ```text
//!          allocate     get_or_insert          complete, unlock
//!   free ---------> vacant ----------> busy -----------------> uptodate
//!    ^ ^                               |  ^                     |  |
//!    | |                               |  +---------------------+  |
//!    | | read failed or page discarded |           lock            |
//!    | +-------------------------------+                           |
//!    |                                                             |
//!    +-------------------------------------------------------------+
//!              evicted by the clock hand, or removed by a caller
//! ```
//! - *free* and *vacant*: the frame has no page, and no thread accesses the bytes. One thread owns a vacant
//!   frame. This thread has allocated the frame, or is evicting or removing the page that the frame had.
//! - *busy*: no thread can pin the page. The owner of a guard fills the page ([`NewPage`]), for example
//!   from the device, or changes it ([`LockedPage`]). A page becomes busy as soon as a thread starts to lock
//!   it. Other threads may then still have it pinned and read the bytes. The `LockedPage` is created after
//!   the last of these pins is removed.
//! - *uptodate*: a thread may pin the page and then read the bytes. An uptodate page can be dirty. A
//!   dirty page is not evicted until it is [marked as clean](PageCache::set_clean).
//! - *retired*, not in the diagram: the frame is lent to another cache (see `pool.rs`), and its memory was
//!   returned to the kernel. A frame is vacant before it is lent, and free after it is returned.
//!
//! # Writing to a page
//! To change a page that is cached, a thread [locks](PageCache::lock) it, changes it in place, and marks
//! it dirty. The lock waits until the pins are removed, and prevents new ones. To write a page that is
//! not cached, a thread inserts it as for a read, and fills it with its new contents. A thread that
//! writes a page to the device keeps the page pinned until the write is complete, which prevents
//! changes.
//!
//! # Reading a page
//! ```
//! # use larder_cache::page::{Entry, Frames, FramesConfig, PageCache, PageKey};
//! # fn read(bytes: &mut [u8]) -> std::io::Result<()> {
//! #     bytes.fill(7);
//! #     Ok(())
//! # }
//! # fn first_byte(pages: &PageCache, key: PageKey) -> std::io::Result<u8> {
//! loop {
//!     if let Some(page) = pages.get(key) {
//!         return Ok(page[0]);
//!     }
//!     match pages.get_or_insert(key) {
//!         Entry::Uptodate(page) => return Ok(page[0]),
//!         // Another thread fills or changes the page: wait for it, then look the page up again.
//!         Entry::Busy(wait) => drop(wait.wait(None)),
//!         Entry::New(mut page) => {
//!             // If the read fails, `page` is dropped, which removes the page and wakes waiters.
//!             read(&mut page)?;
//!             return Ok(pages.complete(page)[0]);
//!         }
//!         // No frame is available, or the page has too many pins: read without caching.
//!         Entry::Full => {
//!             let mut bytes = vec![0; pages.page_bytes()];
//!             read(&mut bytes)?;
//!             return Ok(bytes[0]);
//!         }
//!     }
//! }
//! # }
//! # let pages = PageCache::new(Frames::new(&FramesConfig::of_pages(4096, 16, 4))?.into());
//! # let key = PageKey { ino: 12, index: 0 };
//! # for _ in 0..2 {
//! #     assert_eq!(first_byte(&pages, key)?, 7);
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Invariants
//! The invariants of the frames (`pool.rs`) and those of the [`table`](crate::table) hold.
//!
//! # Locking
//! A hit takes no lock, unless the pages are in red-black trees ([`research`](crate::research)).
//!
//! # Cost
//! Each frame costs 32 bytes for its slot and, with Larder's default sizes, 3 to 6 bytes for buckets.

mod bytes;
mod cache;
mod flags;
mod index;
mod key;
mod memory;
mod pool;

pub use bytes::{LockedPage, NewPage, OwnedPage, Page, PageParts, PagesToRead};
pub use cache::{Entry, Lock, PageCache, PageWait, ReadaheadCounts, StillBusy};
pub(crate) use index::PageIndex;
pub use key::{PAGE_WORDS, PageKey, PageLayout};
pub use pool::{Frames, FramesConfig};
