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
mod key;
pub mod mixer;
pub mod page;
pub mod random_table;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod unknown;
pub mod word;

pub use function::Function;
pub use key::HashKey;
pub use unknown::UnknownFunction;

use crate::table::HashFunction;
use crate::tape::CacheKind;
use word::{Word, Word64};

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
