//! The names of the variants.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An implementation of mbcache. The [module](super) describes the differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The original implementation: two indexes with one lock.
    Old,
    /// The rewrite with one LRU list.
    Lru,
    /// The rewrite with an LRU list for each NUMA node; in a mount, for each processor.
    ListLru,
    /// The rewrite with one list and a referenced bit, which is the design in Linux.
    #[default]
    Referenced,
    /// Larder's own design: a clock hand instead of a list, and lookups without a lock.
    Clock,
    /// No cache, so that attributes are not shared.
    Off,
}

/// An error: no variant has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown mbcache variant '{0}'; available: {names}",
    names = Variant::ALL.map(Variant::as_str).join(", ")
)]
pub struct UnknownVariant(String);

impl Variant {
    /// All variants: first the published designs in their order of publication, then Larder's own, then
    /// `off`.
    pub const ALL: [Self; 6] = [
        Self::Old,
        Self::Lru,
        Self::ListLru,
        Self::Referenced,
        Self::Clock,
        Self::Off,
    ];

    /// The variants that keep entries: all except the last.
    pub const CACHES: &[Self] = Self::ALL.split_at(Self::ALL.len() - 1).0;

    /// Returns the name by which users choose the variant.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::Lru => "lru",
            Self::ListLru => "list-lru",
            Self::Referenced => "referenced",
            Self::Clock => "clock",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Variant {
    type Err = UnknownVariant;

    fn from_str(name: &str) -> Result<Self, UnknownVariant> {
        let variant = Self::ALL
            .into_iter()
            .find(|variant| variant.as_str() == name);
        variant.ok_or_else(|| UnknownVariant(name.to_owned()))
    }
}
