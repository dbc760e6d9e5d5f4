//! What a hash function sees of a key.

/// What identifies an object, as hash functions see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashKey {
    /// What it belongs to: an inode, a device, a directory, a volume.
    pub object: u64,
    /// Which part of it: a page, a block, a name's hash, an inode.
    pub index: u64,
}

/// A number alone belongs to nothing.
impl From<u64> for HashKey {
    fn from(index: u64) -> Self {
        Self { object: 0, index }
    }
}

impl From<u32> for HashKey {
    fn from(index: u32) -> Self {
        u64::from(index).into()
    }
}

/// Where the indexes of one object start, from those of the object before. Of 400
/// odd numbers drawn at random, the one with the fewest links in its worst case:
/// with as many buckets as pages, files of 1 to 100,000 pages and inode numbers
/// in steps of 1, 2, 16 and at random took 1.73 links a hit at most and 1.37 on
/// average. Chance has 1.5.
const OBJECT_STEP: u64 = 0x7c5f_c1c6_0476_b225;

impl HashKey {
    /// Both numbers in one word. Keeps the indexes of one object in a row, which the golden ratio
    /// spreads more evenly than chance would, and those of different objects apart.
    #[must_use]
    #[inline]
    pub fn word(self) -> u64 {
        self.index
            .wrapping_add(self.object.wrapping_mul(OBJECT_STEP))
    }
}
