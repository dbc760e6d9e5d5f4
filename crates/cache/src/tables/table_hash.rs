//! The choice between the default hash function of a table and a named one.

use super::Finder;
use crate::hash::{Function, HashKey};
use crate::table::HashFunction;

/// The hash function of a cache's table: the default function of the cache, or a named one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TableHash<D> {
    Own(D),
    Named(Function),
}

impl<D> TableHash<D> {
    pub(crate) fn new(function: Option<Function>, own: D) -> Self {
        function.map_or(Self::Own(own), Self::Named)
    }

    pub(crate) fn finder(&self) -> Finder {
        match self {
            Self::Own(_) => Finder::Larder,
            Self::Named(function) => Finder::Function(*function),
        }
    }
}

impl<T: Copy + Into<HashKey>, D: HashFunction<T>> HashFunction<T> for TableHash<D> {
    #[inline]
    fn bucket(&self, value: T, bits: u32) -> u32 {
        match self {
            Self::Own(own) => own.bucket(value, bits),
            Self::Named(function) => bucket_of(*function, value.into(), bits),
        }
    }
}

/// Returns the bucket of `key`. The function is not inlined, so that the code of lookups with the default
/// hash function stays short.
#[inline(never)]
fn bucket_of(function: Function, key: HashKey, bits: u32) -> u32 {
    function.bucket(key, bits)
}
