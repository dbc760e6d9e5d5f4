//! A cache, and the table in which its events are replayed.

use larder_cache::tables::Finder;
use larder_cache::tape::CacheKind;
use std::fmt;

/// A cache, and the table (or the red-black trees) in which its events are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination {
    /// The cache whose keys are used.
    pub cache: CacheKind,
    /// The hash function, or red-black trees.
    pub function: Finder,
    /// The table has 2^`bits` buckets. The roots of red-black trees are stored in 2^`bits` chains.
    pub bits: u32,
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cache,
            function,
            bits,
        } = self;
        write!(f, "{}={function}/{bits}", cache.as_str())
    }
}
