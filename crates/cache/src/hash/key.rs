//! The keys of hash functions.

/// The identity of an object, as the input of a hash function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashKey {
    /// The owner of the object: an inode, a device, a directory, a volume.
    pub object: u64,
    /// The part of the owner: a page, a block, a name's hash, an inode.
    pub index: u64,
}

/// A plain number has no owner.
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

/// The distance from the first index of one object to that of the next. It was chosen from 400
/// random odd numbers because it has the fewest links in its worst case. With as many buckets as
/// pages, files of 1 to 100,000 pages, and inode numbers in steps of 1, 2, 16 and at random, hits
/// took at most 1.73 links and 1.37 on average. Chance is 1.5.
const OBJECT_STEP: u64 = 0x7c5f_c1c6_0476_b225;

impl HashKey {
    /// Returns both numbers combined in one word. The indexes of one object remain consecutive, so
    /// the golden ratio spreads them more evenly than chance, and those of different objects remain
    /// apart.
    #[must_use]
    #[inline]
    pub fn word(self) -> u64 {
        self.index
            .wrapping_add(self.object.wrapping_mul(OBJECT_STEP))
    }
}
