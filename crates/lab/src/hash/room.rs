//! How many objects of a cache a given memory holds.

use larder_cache::inode::{InodeCache, RAW_INODE_WORDS};
use larder_cache::tape::CacheKind;

/// A page's slot, and the page.
const PAGE_BYTES: u64 = 32 + 4096;

/// A name's slot, with a name of common length.
const DENTRY_BYTES: u64 = 64;

/// A raw inode's slot.
const INODE_BYTES: u64 = InodeCache::<RAW_INODE_WORDS>::SLOT_BYTES as u64;

/// Objects of `cache` in `bytes` of memory.
#[must_use]
pub fn room_of(cache: CacheKind, bytes: u64) -> u64 {
    bytes / object_bytes(cache)
}

/// What an object of `cache` takes, in bytes.
fn object_bytes(cache: CacheKind) -> u64 {
    match cache {
        CacheKind::Page | CacheKind::Buffer => PAGE_BYTES,
        CacheKind::Dentry => DENTRY_BYTES,
        CacheKind::Inode => INODE_BYTES,
    }
}
