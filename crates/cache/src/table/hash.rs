//! Hash functions, which map the identity of an object to a bucket.

use std::fmt::Debug;

/// A hash function for objects identified by a `T`.
pub trait HashFunction<T>: Debug + Send + Sync {
    /// Returns the bucket of `value` in a table of 2^`bits` buckets. The caller must pass at most 29 for
    /// `bits`. The result must be below 2^`bits`.
    fn bucket(&self, value: T, bits: u32) -> u32;
}

/// The kernel's `hash_64`: the upper bits of the product of the value and 2^64 divided by the golden
/// ratio. It spreads neighbouring values evenly over the buckets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hash64;

/// Returns the upper `bits` bits of `hash`. `bits` must be at most 29.
#[inline]
fn upper_bits(hash: u64, bits: u32) -> u32 {
    // The shift is done in two steps, since for 0 bits a single shift by 32 would overflow.
    u32::try_from(hash >> 32).unwrap_or_default() >> 1 >> (31 - bits)
}

/// 2^64 divided by the golden ratio, rounded to an odd number.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

impl<T: Into<u64>> HashFunction<T> for Hash64 {
    #[inline]
    fn bucket(&self, value: T, bits: u32) -> u32 {
        upper_bits(value.into().wrapping_mul(GOLDEN_RATIO), bits)
    }
}

/// A hash function with a secret seed, for values that an attacker can choose. An attacker who does not
/// know the seed cannot predict which values share a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeededHash {
    words: u64,
    state: u64,
}

impl SeededHash {
    pub(crate) fn new(seed: [u64; 2]) -> Self {
        // Without these constants, [`Self::fold`] with a seed of 0 and a hash of 0 would return the word
        // itself.
        Self {
            words: seed[0] ^ 0x2d35_8dcc_aa6c_78a5,
            state: seed[1] ^ 0xa076_1d64_78bd_642f,
        }
    }

    /// Mixes `word` into `hash`. Two factors are computed from them and the seed. The result is the exclusive
    /// or of both factors and of both halves of their product. If one factor is 0, the result is the other
    /// factor, so that no word cancels the previous ones.
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
