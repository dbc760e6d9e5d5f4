//! Construction of a cache of a given variant.

use super::off::Off;
use super::rewrite::{self, Referenced, Rewrite};
use super::sizes::Sizes;
use super::{Config, MbCache, Probe, Variant};
use crate::research::mbcache::{Lru, clock, old};
use crate::table::Growth;
use std::io;
use std::sync::Arc;

/// The two caches that find attributes that the files of a volume can share.
#[derive(Debug)]
pub struct AttributeCaches {
    /// The cache of attribute blocks. The key is the hash in the header of the block.
    pub blocks: Arc<dyn MbCache>,
    /// The cache of inodes that contain attribute values. The key is the checksum of the value.
    pub inodes: Arc<dyn MbCache>,
}

impl Default for AttributeCaches {
    /// Returns caches of the variant `off`, with which nothing is shared.
    fn default() -> Self {
        Self {
            blocks: Arc::new(Off),
            inodes: Arc::new(Off),
        }
    }
}

impl Sizes {
    /// Returns the sizes of `variant`, or `None` if the variant keeps no entries.
    pub fn of(variant: Variant) -> Option<Self> {
        match variant {
            Variant::Old => Some(old::SIZES),
            Variant::Lru | Variant::ListLru | Variant::Referenced => Some(rewrite::SIZES),
            Variant::Clock => Some(clock::SIZES),
            Variant::Off => None,
        }
    }
}

/// Creates a cache of the given variant. `growth` accounts for the memory of the entries. The cache
/// reports to `probe` which locks and cache lines it uses.
///
/// # Errors
/// Returns the kernel's error, most likely because there is not enough address space.
pub fn build<P: Probe>(
    variant: Variant,
    config: Config,
    growth: Growth,
    probe: P,
) -> io::Result<Box<dyn MbCache>> {
    match variant {
        Variant::Old => Ok(Box::new(old::Old::new(config, growth, probe)?)),
        Variant::Lru => Ok(Box::new(Rewrite::new(Lru::one(), config, growth, probe)?)),
        Variant::ListLru => {
            let order = Lru::for_each_of(probe.nodes());
            Ok(Box::new(Rewrite::new(order, config, growth, probe)?))
        }
        Variant::Referenced => {
            let order = Referenced::new();
            Ok(Box::new(Rewrite::new(order, config, growth, probe)?))
        }
        Variant::Clock => Ok(Box::new(clock::Clock::new(config, growth, probe)?)),
        Variant::Off => Ok(Box::new(Off)),
    }
}
