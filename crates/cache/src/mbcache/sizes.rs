//! The size of a cache, and its memory.

use super::Variant;

/// The sizes of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The largest number of entries.
    pub limit_entries: u32,
    /// 2^`bits` buckets.
    pub bits: u32,
}

impl Config {
    /// Linux's limit of entries: 16 for each of 1,024 buckets. This is also Larder's default.
    pub const LINUX_LIMIT_ENTRIES: u32 = 16 << Self::LINUX_BITS;
    /// Linux has 2^10 buckets, whatever the limit is.
    pub const LINUX_BITS: u32 = 10;

    /// Returns the sizes for `variant` with a limit of entries. The published variants have as many
    /// buckets as Linux, Larder's own one for each one or two entries. No variant has more than one
    /// for each entry.
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

/// The sizes of a variant that keeps entries. Each variant defines its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Bytes of an entry's slot.
    pub entry_bytes: usize,
    /// Bytes of a bucket, in all indexes together.
    pub bucket_bytes: usize,
    /// Slots for each entry of the limit.
    pub slots_per_entry: u32,
    /// Additional slots.
    pub spare_slots: u32,
}

impl Sizes {
    /// Returns the slots of a cache with this limit of entries.
    pub fn slots(self, limit_entries: u32) -> u32 {
        limit_entries * self.slots_per_entry + self.spare_slots
    }

    /// Returns the largest limit, at most Linux's, with which slots and buckets take at most
    /// `bytes`, with at most one bucket for each entry. The result is at least 1, even if that takes
    /// more.
    pub fn limit_within(self, bytes: u64) -> u32 {
        let slots = u64::from(self.slots_per_entry) * self.entry_bytes as u64;
        let spare = u64::from(self.spare_slots) * self.entry_bytes as u64;
        let limit = bytes.saturating_sub(spare) / (slots + self.bucket_bytes as u64);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        limit.clamp(1, Config::LINUX_LIMIT_ENTRIES)
    }
}
