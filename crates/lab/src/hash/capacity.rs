//! Computes the number of objects of a cache that fit in a given memory.

use larder_cache::inode::{InodeCache, RAW_INODE_WORDS};
use larder_cache::tape::CacheKind;

/// Memory for a page or buffer and its slot, in bytes. The memory of a buffer is assumed to be as large as a
/// page.
const PAGE_BYTES: u64 = 32 + 4096;

/// Memory for the slot of a name of typical length, in bytes.
const DENTRY_BYTES: u64 = 64;

/// Memory for the slot of a raw inode, in bytes.
const INODE_BYTES: u64 = InodeCache::<RAW_INODE_WORDS>::SLOT_BYTES as u64;

/// Returns the number of objects of `cache` that fit in `bytes` of memory.
#[must_use]
pub fn capacity_of(cache: CacheKind, bytes: u64) -> u64 {
    bytes / object_bytes(cache)
}

/// Returns the memory for an object of `cache`, in bytes.
fn object_bytes(cache: CacheKind) -> u64 {
    match cache {
        CacheKind::Page | CacheKind::Buffer => PAGE_BYTES,
        CacheKind::Dentry => DENTRY_BYTES,
        CacheKind::Inode => INODE_BYTES,
    }
}
