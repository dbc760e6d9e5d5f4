//! Construction of a cache from its variant, the only code that knows all variants.

use super::off::Off;
use super::rewrite::{self, Referenced, Rewrite};
use super::sizes::Sizes;
use super::{Config, MbCache, Probe, Variant};
use crate::research::mbcache::{Lru, clock, old};
use crate::table::Growth;
use std::io;
use std::sync::Arc;

/// The caches of a volume's attributes.
#[derive(Debug)]
pub struct AttributeCaches {
    /// Attribute blocks, found by the hash in their headers.
    pub blocks: Arc<dyn MbCache>,
    /// Inodes that contain values, found by the value's checksum.
    pub inodes: Arc<dyn MbCache>,
}

impl Default for AttributeCaches {
    /// Returns caches that share nothing.
    fn default() -> Self {
        Self {
            blocks: Arc::new(Off),
            inodes: Arc::new(Off),
        }
    }
}

impl Sizes {
    /// Returns the sizes of `variant`; `None` if it keeps no entries.
    pub fn of(variant: Variant) -> Option<Self> {
        match variant {
            Variant::Old => Some(old::SIZES),
            Variant::Lru | Variant::ListLru | Variant::Referenced => Some(rewrite::SIZES),
            Variant::Clock => Some(clock::SIZES),
            Variant::Off => None,
        }
    }
}

/// Creates a cache of the given variant and size. `growth` accounts for the memory of its entries.
/// The cache reports to `probe` what it locks and writes.
///
/// # Errors
/// Those of the kernel, most likely because there is not enough address space.
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
            let order = Lru::for_each_of(probe.processors());
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
