//! A fast hash function for standard maps whose keys are numbers. It takes one multiplication.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// A random factor. Without it, the author of an image could choose numbers that share a bucket.
static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0) | 1);

/// A hash function for numbers. It multiplies the number by a random factor, and combines both halves of
/// the product by an exclusive or.
#[derive(Clone, Copy, Debug)]
pub struct NumberHash {
    key: u64,
}

impl Default for NumberHash {
    fn default() -> Self {
        Self { key: *KEY }
    }
}

impl BuildHasher for NumberHash {
    type Hasher = NumberHasher;

    #[inline]
    fn build_hasher(&self) -> NumberHasher {
        NumberHasher {
            key: self.key,
            hash: 0,
        }
    }
}

/// The hasher of [`NumberHash`].
#[derive(Debug)]
pub struct NumberHasher {
    key: u64,
    hash: u64,
}

impl Hasher for NumberHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let mixed = number ^ self.hash.rotate_left(32) ^ self.key.rotate_left(17);
        let product = u128::from(mixed) * u128::from(self.key);
        let halves = [product, product >> 64].map(|half| half & u128::from(u64::MAX));
        self.hash = u64::try_from(halves[0] ^ halves[1]).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::NumberHash;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn numbers_in_any_stride_spread_over_buckets() {
        // A fixed value, so that the test always has the same result.
        let hash = NumberHash {
            key: 0x9e37_79b9_7f4a_7c15,
        };
        for stride in [1_u64, 8, 64, 4096, 32768, 1 << 32] {
            let buckets: HashSet<u64> = (0..1024)
                .map(|index| hash.hash_one(index * stride) % 1024)
                .collect();
            assert!(buckets.len() > 400, "{stride}: {}", buckets.len());
            // The upper 7 bits, by which the standard map distinguishes entries before it compares keys.
            let tops: HashSet<u64> = (0..1024)
                .map(|index| hash.hash_one(index * stride) >> 57)
                .collect();
            assert!(tops.len() > 40, "{stride}: {}", tops.len());
        }
    }
}
