//! Random numbers and permutations for workloads, from a seed. The memory that they need does not
//! depend on the size of the file.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Returns a random number generator. Each `stream` of a `seed` is an independent sequence of numbers.
pub(crate) fn generator(seed: u64, stream: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(mix(seed ^ mix(stream)))
}

/// Returns a number that depends on all bits of `value`: the finishing step of `SplitMix64`.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A random permutation of the numbers below `count`.
///
/// The permutation is a Feistel network over the smallest even number of bits that can represent
/// `count`. Results of `count` or more are mapped again, at most 4 times on average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permutation {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    const ROUNDS: u64 = 4;

    pub(super) fn new(count: u64, seed: u64) -> Self {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        Self {
            count,
            half_bits: bits.div_ceil(2).max(1),
            seed,
        }
    }

    /// Returns the number at position `place` modulo `count`.
    pub(super) fn at(&self, place: u64) -> u64 {
        let mut value = place % self.count.max(1);
        loop {
            value = self.scramble(value);
            if value < self.count.max(1) {
                return value;
            }
        }
    }

    fn scramble(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..Self::ROUNDS {
            let mixed = mix(self.seed ^ mix(right << 3 | round)) & mask;
            (left, right) = (right, left ^ mixed);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutation_contains_each_number_once() {
        for count in [1, 2, 3, 4, 5, 16, 17, 1000, 65536, 65537] {
            let permutation = Permutation::new(count, 7);
            let mut seen: Vec<u64> = (0..count).map(|place| permutation.at(place)).collect();
            let is_shuffled = seen
                .windows(2)
                .filter(|pair| pair[1] == pair[0] + 1)
                .count();
            assert!(
                (is_shuffled as u64) < count.max(100) / 10,
                "{count}: in order"
            );
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
        }
        assert_eq!(
            Permutation::new(u64::MAX, 1).at(5),
            Permutation::new(u64::MAX, 1).at(5)
        );
    }
}
