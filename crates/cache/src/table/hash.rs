//! Hash functions: from what identifies an object to a bucket.

use std::fmt::Debug;

/// A hash function for things identified by a `T`.
pub trait HashFunction<T>: Debug + Send + Sync {
    /// The bucket of `value` in a table of 2^`bits` buckets. `bits` is at most
    /// 29; the result must be below 2^`bits`.
    fn bucket(&self, value: T, bits: u32) -> u32;
}

/// Multiplication by the golden ratio, the upper bits of the product: the
/// kernel's `hash_64`. Neighbours land far apart, evenly.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hash64;

/// The upper `bits` of `hash`, 29 at most.
#[inline]
fn upper_bits(hash: u64, bits: u32) -> u32 {
    // In two steps, since a shift by 32 is none.
    u32::try_from(hash >> 32).unwrap_or_default() >> 1 >> (31 - bits)
}

/// 2^64 divided by the golden ratio, odd.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

impl<T: Into<u64>> HashFunction<T> for Hash64 {
    #[inline]
    fn bucket(&self, value: T, bits: u32) -> u32 {
        upper_bits(value.into().wrapping_mul(GOLDEN_RATIO), bits)
    }
}

/// A hash function with a secret, for what an attacker can choose: without the
/// seed nobody can tell which values share a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeededHash {
    words: u64,
    state: u64,
}

impl SeededHash {
    pub(crate) fn new(seed: [u64; 2]) -> Self {
        // Without these a seed of 0 would leave short values as they are.
        Self {
            words: seed[0] ^ 0x2d35_8dcc_aa6c_78a5,
            state: seed[1] ^ 0xa076_1d64_78bd_642f,
        }
    }

    /// Mixes a word into a hash: a product's halves, folded. Where a factor is 0
    /// the other one is what remains, so that no word wipes out those before it.
    #[must_use]
    #[inline]
    pub(crate) fn fold(self, hash: u64, word: u64) -> u64 {
        let word = word ^ self.words;
        let hash = hash ^ self.state;
        let product = u128::from(word) * u128::from(hash);
        let low = product & u128::from(u64::MAX);
        u64::try_from((product >> 64) ^ low).unwrap_or_default() ^ word ^ hash
    }
}

impl<T: Into<u64>> HashFunction<T> for SeededHash {
    #[inline]
    fn bucket(&self, value: T, bits: u32) -> u32 {
        upper_bits(self.fold(0, value.into()), bits)
    }
}
