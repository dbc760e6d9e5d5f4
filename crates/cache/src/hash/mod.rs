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

use crate::table::HashFunction;
use std::fmt::Debug;

/// What identifies an object, as hash functions see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashKey {
    /// What it belongs to: an inode, a device, a directory, a volume.
    pub object: u64,
    /// Which part of it: a page, a block, a name's hash, an inode.
    pub index: u64,
}

/// Code to be compiled for each function, see [`Function::visit`].
pub trait FunctionVisitor {
    /// What comes of it.
    type Output;

    /// Is called with the function's own type.
    fn visit<H: HashFunction<HashKey> + Copy + 'static>(self, hash: H) -> Self::Output;
}
