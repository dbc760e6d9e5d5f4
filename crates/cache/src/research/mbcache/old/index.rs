//! An index of `old`. The variant has two indexes: by key and by value.
//!
//! # Model
//! In Linux, an index is an array of `list_head`, and each entry has a `list_head` for each index. Here a
//! chain is singly linked: for each index, the link to the next entry is in one half of the entry's third
//! word.
//!
//! # Locking
//! The lock of the cache guards chains and links.
//!
//! # Cost
//! An index takes 4 bytes for each bucket, and 4 for each entry.

use crate::table::{Arena, Hash64, HashFunction, Slot};

/// The number that represents the absence of an entry.
const NONE: u32 = u32::MAX;

/// An index of entries by a number: the key or the value of each entry.
#[derive(Debug)]
pub(super) struct Index {
    heads: Box<[u32]>,
    bits: u32,
    /// The position of this index's link in the third word of an entry, in bits.
    shift: u32,
}

impl Index {
    const WORD: usize = 2;

    /// Creates an index of 2^`bits` buckets. Its links are in the lower half of the word if `half` is 0, and
    /// in the upper half if `half` is 1.
    pub fn new(bits: u32, half: u32) -> Self {
        Self {
            heads: vec![NONE; 1 << bits].into(),
            bits,
            shift: 32 * half,
        }
    }

    pub fn buckets(&self) -> u64 {
        self.heads.len() as u64
    }

    /// Returns the size of all buckets in bytes.
    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.heads) as u64
    }

    /// Returns the entries in the bucket of `number`, the newest first.
    pub fn chain<'c>(&self, slots: &'c Arena<3>, number: u64) -> impl Iterator<Item = u32> + 'c {
        self.walk(slots, self.heads[self.bucket(number)])
    }

    /// Returns the entries after the entry `index` in its bucket.
    pub fn after<'c>(&self, slots: &'c Arena<3>, index: u32) -> impl Iterator<Item = u32> + 'c {
        self.walk(slots, next(slots.slot(index), self.shift))
    }

    /// Adds the entry `index` under `number`.
    pub fn add(&mut self, slots: &Arena<3>, index: u32, number: u64) {
        let bucket = self.bucket(number);
        self.set_next(slots.slot(index), self.heads[bucket]);
        self.heads[bucket] = index;
    }

    /// Removes the entry `index`, which was added under `number`.
    pub fn remove(&mut self, slots: &Arena<3>, index: u32, number: u64) {
        let after = next(slots.slot(index), self.shift);
        let is_before = |before: &u32| next(slots.slot(*before), self.shift) == index;
        let before = self.chain(slots, number).find(is_before);
        match before {
            Some(before) => self.set_next(slots.slot(before), after),
            None => self.heads[self.bucket(number)] = after,
        }
    }

    /// Checks that each entry is in the bucket of its `number`. Returns the number of entries.
    pub fn check_invariants(&self, slots: &Arena<3>, number: impl Fn(&Slot<3>) -> u64) -> u32 {
        let mut count = 0;
        for (bucket, head) in self.heads.iter().enumerate() {
            for index in self.walk(slots, *head) {
                let own = self.bucket(number(slots.slot(index)));
                assert_eq!(own, bucket, "bucket of slot {index}");
                count += 1;
            }
        }
        count
    }

    fn bucket(&self, number: u64) -> usize {
        Hash64.bucket(number, self.bits) as usize
    }

    fn walk<'c>(&self, slots: &'c Arena<3>, from: u32) -> impl Iterator<Item = u32> + use<'c> {
        let (mut at, shift) = (from, self.shift);
        std::iter::from_fn(move || {
            let index = (at != NONE).then_some(at)?;
            at = next(slots.slot(index), shift);
            Some(index)
        })
    }

    fn set_next(&self, slot: &Slot<3>, next: u32) {
        let other = slot.word(Self::WORD) & !(u64::from(u32::MAX) << self.shift);
        slot.set_word(Self::WORD, other | u64::from(next) << self.shift);
    }
}

fn next(slot: &Slot<3>, shift: u32) -> u32 {
    // After the mask the value has 32 bits, so the conversion cannot fail.
    u32::try_from(slot.word(Index::WORD) >> shift & u64::from(u32::MAX)).unwrap_or(NONE)
}
