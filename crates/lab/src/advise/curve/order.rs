//! An ordered set of positions, which counts the positions after a given one.
//!
//! # Model
//! A Fenwick tree (P. Fenwick, "A new data structure for cumulative frequency tables", 1994) over blocks of a
//! bitmap. Only the newest position is ever added, and any position can be removed.
//!
//! # Cost
//! One bit for each position, and four bytes for each block of 512 positions. So the tree of 4 million
//! positions fits in the first-level cache of a processor. A count reads one block and the path to the root of
//! the tree.

/// Number of words in a block: a cache line.
const BLOCK_WORDS: usize = 8;
/// Number of positions in a block.
const BLOCK: u32 = 512;

/// A set of positions. Positions are numbered in the order in which they are added.
#[derive(Debug)]
pub(super) struct Order {
    /// One bit for each position.
    words: Vec<u64>,
    /// The Fenwick tree. Element *i* - 1 is the number of positions in the blocks that node *i* covers.
    tree: Vec<u32>,
    /// The next position.
    next: u32,
    /// The number of positions in the set.
    count: u32,
}

impl Order {
    /// Creates a set of the positions from 0 to `count` - 1, with space for twice as many.
    pub(super) fn with_first(count: u32) -> Self {
        let blocks = count.max(BLOCK).div_ceil(BLOCK) as usize * 2;
        let mut words = vec![0; blocks * BLOCK_WORDS];
        let whole = count as usize / 64;
        words[..whole].fill(u64::MAX);
        if !count.is_multiple_of(64) {
            words[whole] = (1 << (count % 64)) - 1;
        }
        let mut tree: Vec<u32> = words
            .chunks(BLOCK_WORDS)
            .map(|block| block.iter().map(|word| word.count_ones()).sum())
            .collect();
        for node in 1..=tree.len() {
            let parent = node + (node & node.wrapping_neg());
            if parent <= tree.len() {
                tree[parent - 1] += tree[node - 1];
            }
        }
        Self {
            words,
            tree,
            next: count,
            count,
        }
    }

    /// Returns the number of positions in the set.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether there is no space for another position.
    pub(super) fn is_full(&self) -> bool {
        self.next as usize == self.words.len() * 64
    }

    /// Adds and returns the next position. There must be space.
    #[inline]
    pub(super) fn push(&mut self) -> u32 {
        let position = self.next;
        self.words[position as usize / 64] |= 1 << (position % 64);
        self.next += 1;
        self.count += 1;
        self.change(position, |sum| *sum += 1);
        position
    }

    /// Removes a position, which must be in the set.
    #[inline]
    pub(super) fn remove(&mut self, position: u32) {
        self.words[position as usize / 64] &= !(1 << (position % 64));
        self.count -= 1;
        self.change(position, |sum| *sum -= 1);
    }

    #[inline]
    fn change(&mut self, position: u32, change: impl Fn(&mut u32)) {
        let mut node = (position / BLOCK) as usize + 1;
        while let Some(sum) = self.tree.get_mut(node - 1) {
            change(sum);
            node += node & node.wrapping_neg();
        }
    }

    /// Returns the number of positions in the set before `position`.
    #[inline]
    pub(super) fn count_before(&self, position: u32) -> u32 {
        let word = position as usize / 64;
        let first = word / BLOCK_WORDS * BLOCK_WORDS;
        let words = self.words[first..word].iter();
        let mut count: u32 = words.map(|word| word.count_ones()).sum();
        count += (self.words[word] & ((1 << (position % 64)) - 1)).count_ones();
        let mut node = (position / BLOCK) as usize;
        while node > 0 {
            count += self.tree[node - 1];
            node &= node - 1;
        }
        count
    }

    /// Returns the number of positions in the set after `position`, which must be in the set.
    #[inline]
    pub(super) fn count_after(&self, position: u32) -> u32 {
        self.count - self.count_before(position) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::{Random, Seed};
    use std::collections::BTreeSet;

    #[test]
    fn counts_equal_those_of_an_ordered_set() {
        let seed = Seed::from_environment(0x6f_7264);
        let mut random = Random::new(seed);
        for first in [0, 1, 63, 64, 511, 512, 513, 3000] {
            let mut order = Order::with_first(first);
            let mut model: BTreeSet<u32> = (0..first).collect();
            while !order.is_full() {
                model.insert(order.push());
                let at = u32::try_from(random.below(u64::from(order.next))).unwrap();
                if random.below(2) == 0 && model.remove(&at) {
                    order.remove(at);
                }
                if random.below(8) == 0 {
                    let at = u32::try_from(random.below(u64::from(order.next))).unwrap();
                    let before = model.range(..at).count();
                    assert_eq!(order.count_before(at) as usize, before, "seed {seed}");
                    if model.contains(&at) {
                        let after = model.len() - before - 1;
                        assert_eq!(order.count_after(at) as usize, after, "seed {seed}");
                    }
                }
            }
            assert_eq!(order.count() as usize, model.len());
        }
    }
}
