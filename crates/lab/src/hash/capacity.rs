//! Computes the number of objects of a cache that fit in a given memory.

use larder_cache::inode::{InodeCache, RAW_INODE_WORDS};
use larder_cache::tape::CacheKind;

/// A page and its slot.
const PAGE_BYTES: u64 = 32 + 4096;

/// A slot of a name of typical length.
const DENTRY_BYTES: u64 = 64;

/// A slot of a raw inode.
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
