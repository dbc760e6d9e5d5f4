//! Bucket heads: the start of each chain, and the bit that locks it.
//!
//! # Locking
//! A writer locks one bucket at a time, while it walks and changes the chain. To lock the bucket, the writer
//! sets the bit [`LOCKED`] in the head. While the bucket is locked, the writer locks no other bucket and does
//! not wait. Readers ignore the bit.

use super::link::Link;
use crate::memory::{Array, Pages};
use crate::sync::{Acquire, AtomicU32, Backoff, Relaxed, Release};
use std::io;

/// Set in the head of a locked bucket.
const LOCKED: u32 = 1 << 31;

/// The heads of 2^bits buckets. A head is 0 if the bucket is empty, otherwise the number of the bucket's
/// first slot plus 1. Therefore zeroed memory is an empty table.
#[derive(Debug)]
pub(crate) struct Buckets {
    heads: Array<AtomicU32>,
    bits: u32,
    /// The number of the first bucket. Tables that share an arena have different bucket numbers, so that
    /// the ends of their chains differ.
    first: u32,
}

impl Buckets {
    pub(crate) fn new(bits: u32, first: u32) -> io::Result<Self> {
        assert!(
            bits < 30 && first <= super::NUMBER_LIMIT - (1 << bits),
            "too many buckets: 2^{bits}"
        );
        Ok(Self {
            heads: Array::zeroed(1 << bits, Pages::Huge)?,
            bits,
            first,
        })
    }

    #[inline]
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    pub(crate) fn count(&self) -> u32 {
        1 << self.bits
    }

    /// Returns the link that ends the chain of `bucket`.
    #[inline]
    pub(crate) fn end(&self, bucket: u32) -> Link {
        Link::End(self.first + bucket)
    }

    /// Returns the start of the chain of `bucket`.
    #[inline]
    pub(crate) fn first(&self, bucket: u32) -> Link {
        self.decode(bucket, self.heads[bucket as usize].load(Acquire))
    }

    /// Prefetches the head of `bucket`.
    #[inline]
    pub(super) fn prefetch(&self, bucket: u32) {
        self.heads.prefetch(bucket as usize);
    }

    #[inline]
    fn decode(&self, bucket: u32, head: u32) -> Link {
        match head & !LOCKED {
            0 => self.end(bucket),
            slot => Link::Slot(slot - 1),
        }
    }

    /// Locks `bucket`, which excludes other writers.
    pub(crate) fn lock(&self, bucket: u32) -> Locked<'_> {
        let head = &self.heads[bucket as usize];
        let backoff = Backoff::new();
        loop {
            let raw = head.load(Relaxed);
            if raw & LOCKED == 0
                && head
                    .compare_exchange(raw, raw | LOCKED, Acquire, Relaxed)
                    .is_ok()
            {
                return Locked {
                    head,
                    first: self.decode(bucket, raw),
                };
            }
            backoff.snooze();
        }
    }
}

/// A locked bucket. Dropping it unlocks the bucket.
pub(crate) struct Locked<'a> {
    head: &'a AtomicU32,
    first: Link,
}

impl Locked<'_> {
    /// Returns the start of the chain.
    pub(crate) fn first(&self) -> Link {
        self.first
    }

    /// Sets the start of the chain, which readers see at once.
    pub(crate) fn set_first(&mut self, first: Link) {
        self.first = first;
        self.head.store(self.raw() | LOCKED, Release);
    }

    fn raw(&self) -> u32 {
        match self.first {
            Link::Slot(slot) => slot + 1,
            Link::End(_) => 0,
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.head.store(self.raw(), Release);
    }
}
