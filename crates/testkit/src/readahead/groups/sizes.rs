//! The sizes of files and requests.

use crate::readahead::pattern::PAGE_BYTES;

/// Returns the size of `pages` pages in bytes.
pub(super) const fn pages(pages: u64) -> u64 {
    pages * PAGE_BYTES
}

/// Returns the length of a request of `pages` pages in bytes.
pub(super) const fn request(pages: u32) -> u32 {
    pages * 4096
}

/// The size of a file whose end no pattern reaches.
pub(super) const LONG_FILE_BYTES: u64 = 1 << 30;

const _: () = assert!(request(1) as u64 == PAGE_BYTES);
