//! A group's bitmap in memory, in which a set bit represents a cluster that cannot be claimed.

use std::ops::Range;

/// One bit for each cluster of the group, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    words: Box<[u64]>,
    len: u32,
}

impl Bits {
    /// Creates a bitmap of `len` clear bits.
    pub(super) fn new(len: u32) -> Self {
        Self {
            words: vec![0; len.div_ceil(64) as usize].into(),
            len,
        }
    }

    /// Creates a bitmap from the first `len` bits of `bytes`, a bitmap in its on-disk form. Bits
    /// past the end of `bytes` are set.
    pub(super) fn from_bytes(bytes: &[u8], len: u32) -> Self {
        let mut bits = Self::new(len);
        let mut chunks = bytes.chunks(8);
        for word in &mut bits.words {
            let mut full = [u8::MAX; 8];
            let chunk = chunks.next().unwrap_or_default();
            full[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_le_bytes(full);
        }
        bits
    }

    /// Returns the number of bits.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Sets or clears `range`.
    pub(super) fn fill(&mut self, range: Range<u32>, is_set: bool) {
        for (at, mask) in self.parts(range) {
            if let Some(word) = self.words.get_mut(at) {
                *word = if is_set { *word | mask } else { *word & !mask };
            }
        }
    }

    /// Returns how many bits of `range` are set.
    pub(super) fn count_set(&self, range: Range<u32>) -> u32 {
        self.parts(range)
            .filter_map(|(at, mask)| Some((self.words.get(at)? & mask).count_ones()))
            .sum()
    }

    /// Returns the first bit at or after `from` that equals `is_set`, or the number of bits if no
    /// such bit exists.
    pub(super) fn next(&self, from: u32, is_set: bool) -> u32 {
        let mut mask = u64::MAX << (from % 64);
        for at in (from / 64) as usize..self.words.len() {
            let word = if is_set {
                self.words[at]
            } else {
                !self.words[at]
            } & mask;
            if word != 0 {
                let base = u32::try_from(at * 64).unwrap_or(u32::MAX);
                return self.len.min(base.saturating_add(word.trailing_zeros()));
            }
            mask = u64::MAX;
        }
        self.len
    }

    /// Returns the run of clear bits that starts at `from`, up to the first set bit.
    pub(super) fn run_at(&self, from: u32) -> Range<u32> {
        from..self.next(from, true).max(from)
    }

    /// Returns the runs of clear bits in `range`, truncated to it.
    pub(super) fn runs(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let end = range.end.min(self.len);
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = self.next(at, false);
            if start >= end {
                return None;
            }
            at = self.next(start, true).min(end);
            Some(start..at)
        })
    }

    /// Returns the index of each word that contains bits of `range`, with a mask of these bits.
    fn parts(&self, range: Range<u32>) -> impl Iterator<Item = (usize, u64)> + use<> {
        let range = range.start..range.end.min(self.len);
        let words = if range.is_empty() {
            0..0
        } else {
            range.start / 64..range.end.div_ceil(64)
        };
        words.map(move |word| {
            let from = range.start.saturating_sub(word * 64);
            let to = (range.end - word * 64).min(64);
            (word as usize, (u64::MAX >> (64 - (to - from))) << from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::{Random, Seed};

    #[test]
    fn bits_random_fills_agree_with_a_vector_of_booleans() {
        let seed = Seed::from_environment(0xB175);
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut below = |end: u32| u32::try_from(random.below(u64::from(end))).unwrap();
        for len in [1, 63, 64, 65, 200, 512] {
            let mut bits = Bits::new(len);
            let mut model = vec![false; len as usize];
            for _ in 0..200 {
                let start = below(len);
                let end = start + below(len - start + 1);
                let is_set = below(2) == 1;
                bits.fill(start..end, is_set);
                model[start as usize..end as usize].fill(is_set);
                let from = below(len);
                for wanted in [false, true] {
                    let next = (from..len).find(|&bit| model[bit as usize] == wanted);
                    assert_eq!(bits.next(from, wanted), next.unwrap_or(len));
                }
                let set = model[start as usize..end as usize].iter();
                let set = set.filter(|&&bit| bit).count();
                assert_eq!(bits.count_set(start..end) as usize, set);
                let in_runs: u32 = bits.runs(0..len).map(|run| run.end - run.start).sum();
                assert_eq!(in_runs, len - bits.count_set(0..len));
            }
        }
    }

    #[test]
    fn short_bitmap_has_set_bits_after_its_end() {
        let bits = Bits::from_bytes(&[0x0F], 16);
        assert_eq!(bits.count_set(0..16), 12);
        assert_eq!(bits.runs(0..16).next(), Some(4..8));
        assert_eq!(bits.runs(8..16).next(), None);
        assert_eq!(bits.run_at(5), 5..8);
        assert_eq!(bits.run_at(1), 1..1);
    }
}
