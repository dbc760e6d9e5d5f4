//! Counts the objects of a table that were inserted after a given object.
//!
//! # Model
//! The count is needed to compute the expected links of a hit. New objects are inserted at the front of a
//! chain. Therefore a lookup passes the objects of the chain that were inserted after the object sought. If a
//! hash function is independent of the keys, each later object is in the same chain with a probability of one
//! divided by the number of buckets.
//!
//! Each object gets a stamp, a number in order of insertion. A bit for each stamp records whether its object
//! is present. The bits of 512 stamps form a block, and a Fenwick tree contains the sums of the blocks'
//! counts.
//!
//! # Cost
//! An operation reads at most 8 words of a block, and takes at most log2(number of blocks) + 1 steps in the
//! tree. Each stamp takes one bit; there are at least twice as many stamps as objects when the set is
//! created.

const BLOCK_WORDS: usize = 8;
const BLOCK_BITS: usize = BLOCK_WORDS * 64;

/// The set of stamps that are present.
#[derive(Debug)]
pub(super) struct Ranks {
    words: Vec<u64>,
    /// The Fenwick tree: entry i is the sum of the blocks after i - (i & -i), up to i.
    sums: Vec<u32>,
    next: u32,
    present: u32,
}

impl Ranks {
    /// Creates a set that contains the stamps below `present`, with room for at least as many further stamps.
    pub(super) fn new(present: u32) -> Self {
        let blocks = (present as usize * 2).div_ceil(BLOCK_BITS).max(2);
        let mut ranks = Self {
            words: vec![0; blocks * BLOCK_WORDS],
            sums: vec![0; blocks + 1],
            next: 0,
            present: 0,
        };
        (0..present).for_each(|_| {
            ranks.push();
        });
        ranks
    }

    /// Returns whether all stamps have been assigned. Then the caller must create a new set before the next
    /// [`Self::push`].
    pub(super) fn is_full(&self) -> bool {
        self.next as usize == self.words.len() * 64
    }

    /// Returns the number of objects that are present.
    pub(super) fn present(&self) -> u32 {
        self.present
    }

    /// Inserts an object and returns its stamp. The set must not be full.
    pub(super) fn push(&mut self) -> u32 {
        let stamp = self.next;
        self.next += 1;
        self.present += 1;
        self.flip(stamp, 1);
        stamp
    }

    /// Removes the object with this stamp. The object must be present.
    pub(super) fn remove(&mut self, stamp: u32) {
        self.present -= 1;
        // Wrapping addition of `u32::MAX` subtracts one.
        self.flip(stamp, u32::MAX);
    }

    fn flip(&mut self, stamp: u32, by: u32) {
        self.words[stamp as usize / 64] ^= 1 << (stamp % 64);
        let mut at = stamp as usize / BLOCK_BITS + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum = sum.wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the number of present objects that were inserted before the object with this stamp.
    pub(super) fn older(&self, stamp: u32) -> u32 {
        let word = stamp as usize / 64;
        let block = word / BLOCK_WORDS;
        let mut older = (self.words[word] & ((1 << (stamp % 64)) - 1)).count_ones();
        let before = &self.words[block * BLOCK_WORDS..word];
        older += before.iter().map(|word| word.count_ones()).sum::<u32>();
        let mut at = block;
        while at > 0 {
            older += self.sums[at];
            at &= at - 1;
        }
        older
    }

    /// Returns the number of present objects that were inserted after the object with this stamp. That object
    /// must be present.
    pub(super) fn younger(&self, stamp: u32) -> u32 {
        self.present - self.older(stamp) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::{Random, Seed};
    use std::collections::BTreeSet;

    #[test]
    fn ranks_equal_those_of_a_sorted_set() {
        let seed = Seed::from_environment(0x5eed_0001);
        let mut random = Random::new(seed);
        let mut ranks = Ranks::new(3000);
        let mut model: BTreeSet<u32> = (0..3000).collect();
        while !ranks.is_full() {
            if random.below(10) < 6 || model.is_empty() {
                assert!(model.insert(ranks.push()));
                continue;
            }
            let at = usize::try_from(random.below(model.len() as u64)).unwrap();
            let stamp = model.iter().copied().nth(at).unwrap();
            assert_eq!(ranks.older(stamp) as usize, at, "seed {seed}");
            assert_eq!(
                ranks.younger(stamp) as usize,
                model.len() - at - 1,
                "seed {seed}"
            );
            ranks.remove(stamp);
            model.remove(&stamp);
        }
        assert_eq!(ranks.present() as usize, model.len());
    }
}
