//! Hash functions by name, to be chosen when a program runs: those of the published kernels, and
//! today's.
//!
//! # What a function sees
//! Of a key of any of the four caches two numbers, [`HashKey`]:
//!
//! | cache | `object` | `index` |
//! |---|---|---|
//! | page | inode number | page of the file |
//! | buffer | device | block |
//! | dentry | inode number of the directory | hash of the name |
//! | inode | volume | inode number |
//!
//! # On the hot path
//! Each function is a type of its own, for which a table can be compiled. [`Function`] is any of them,
//! chosen by name: it hashes by one branch more, and [`Function::visit`] leads from the name to the type.

pub mod buffer;
pub mod crc;
pub mod dentry;
mod function;
pub mod golden;
pub mod inode;
pub mod mixer;
pub mod page;
pub mod random_table;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod unknown;
pub mod word;

pub use function::Function;
pub use unknown::UnknownFunction;

use crate::table::HashFunction;
use crate::tape::CacheKind;
use std::fmt::Debug;
use word::{Word, Word64};

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

/// What the published multiplicative function of `cache` multiplies, in words of 64 bits.
#[must_use]
pub fn multiplicand(cache: CacheKind, key: HashKey) -> u64 {
    let word: Word64 = match cache {
        CacheKind::Page => page::sum(key),
        CacheKind::Buffer => Word64::new(key.index),
        CacheKind::Dentry => dentry::sum(key),
        CacheKind::Inode => inode::sum(key),
    };
    word.0
}

/// Code to be compiled for each function, see [`Function::visit`].
pub trait FunctionVisitor {
    /// What comes of it.
    type Output;

    /// Is called with the function's own type.
    fn visit<H: HashFunction<HashKey> + Copy + 'static>(self, hash: H) -> Self::Output;
}
