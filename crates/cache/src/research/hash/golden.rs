//! Functions that multiply by the golden ratio, as is usual today. The bucket is the upper bits of the
//! product.

use super::HashKey;
use super::word::{Word, Word32, Word64};
use crate::table::{Hash64, HashFunction};

/// The default function of pages, buffers and inodes: [`Hash64`] of the key's [word](HashKey::word).
#[inline]
pub(super) fn golden(key: HashKey, bits: u32) -> u32 {
    Hash64.bucket(key.word(), bits)
}

/// Linux's `hash_32` since 4.7. The multiplier is 2^32 minus 2^32/g, where g is the golden ratio.
#[inline]
pub(super) fn hash_32_of_linux(key: HashKey, bits: u32) -> u32 {
    let word = Word32::joined(key);
    (word * Word32::new(0x61c8_8647)).upper(bits)
}

/// Linux's `hash_64` since 4.7. The multiplier is 2^64 minus 2^64/g, where g is the golden ratio. So the buckets
/// are those of [`golden`] in reverse order.
#[inline]
pub(super) fn hash_64_of_linux(key: HashKey, bits: u32) -> u32 {
    let word = Word64::joined(key);
    (word * Word64::new(0x61c8_8646_80b5_83eb)).upper(bits)
}
