//! The keys of hash functions.

/// The identity of an object, as the input of a hash function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashKey {
    /// The number of the inode, device, directory or volume to which the object belongs.
    pub object: u64,
    /// The number of the page, block or inode, or the hash of the name.
    pub index: u64,
}

/// A single number is the index, and the other number is 0.
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

/// The difference between the words of the same index in two consecutive objects. Of 400 random odd numbers,
/// this one had the fewest links per hit in the worst case. The number of buckets was equal to the number of
/// pages. Files had 1 to 100,000 pages, and inode numbers were random or in steps of 1, 2 and 16. A hit took
/// at most 1.73 links, and 1.37 links on average. With a random distribution of the pages, it would take 1.5
/// links.
const OBJECT_STEP: u64 = 0x7c5f_c1c6_0476_b225;

impl HashKey {
    /// Returns both numbers combined in one word. Consecutive indexes of one object result in consecutive
    /// words, so [`Hash64`](crate::table::Hash64) distributes them more evenly than a random function. The
    /// words of different objects are far apart.
    #[must_use]
    #[inline]
    pub fn word(self) -> u64 {
        self.index
            .wrapping_add(self.object.wrapping_mul(OBJECT_STEP))
    }
}
