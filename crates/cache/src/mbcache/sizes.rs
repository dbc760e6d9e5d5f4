//! The limits and sizes of a cache.

use super::Variant;

/// The configuration of a cache: its limit of entries and its number of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The limit of entries. In `lru`, `list-lru` and `referenced`, the number of entries can be up to about
    /// twice the limit until a worker has evicted the excess.
    pub limit_entries: u32,
    /// The number of buckets is 2^`bits`.
    pub bits: u32,
}

impl Config {
    /// The limit of entries in Linux: 16 for each of 1,024 buckets. It is also Larder's default.
    pub const LINUX_LIMIT_ENTRIES: u32 = 16 << Self::LINUX_BITS;
    /// The log2 of the number of buckets in Linux.
    pub const LINUX_BITS: u32 = 10;

    /// Returns the configuration of `variant` with a limit of entries. `clock` has one bucket for every
    /// one or two entries. The other variants have as many buckets as Linux, or fewer if the limit is lower
    /// than Linux's number of buckets: no variant has more buckets than entries.
    #[must_use]
    pub fn new(variant: Variant, limit_entries: u32) -> Self {
        let bits = limit_entries.max(1).ilog2();
        let bits = match variant {
            Variant::Clock => bits,
            _ => bits.min(Self::LINUX_BITS),
        };
        Self {
            limit_entries,
            bits,
        }
    }
}

/// The sizes of the structures of a variant. Each variant that keeps entries defines its own sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The size of an entry's slot in bytes.
    pub entry_bytes: usize,
    /// The size of a bucket in bytes, in all indexes together.
    pub bucket_bytes: usize,
    /// The number of slots for each entry that the limit permits.
    pub slots_per_entry: u32,
    /// The number of additional slots.
    pub spare_slots: u32,
}

impl Sizes {
    /// Returns the number of slots of a cache with `limit_entries`.
    pub fn slots(self, limit_entries: u32) -> u32 {
        limit_entries * self.slots_per_entry + self.spare_slots
    }

    /// Returns the largest limit of entries for which the slots, and one bucket for each entry, take at
    /// most `bytes`. The result is at most Linux's limit, and at least 1, even if one entry takes more
    /// than `bytes`.
    pub fn limit_within(self, bytes: u64) -> u32 {
        let slots = u64::from(self.slots_per_entry) * self.entry_bytes as u64;
        let spare = u64::from(self.spare_slots) * self.entry_bytes as u64;
        let limit = bytes.saturating_sub(spare) / (slots + self.bucket_bytes as u64);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        limit.clamp(1, Config::LINUX_LIMIT_ENTRIES)
    }
}
