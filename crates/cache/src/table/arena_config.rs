//! The size of an arena and of its table.

/// The sizes of an arena whose slots are accounted for as they are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaConfig {
    /// The largest number of slots.
    pub slots: u32,
    /// Slots for each frame that the pool gives up.
    pub chunk: u32,
    /// The table has 2^`bits` buckets.
    pub bits: u32,
    /// The size of a bucket in bytes.
    pub bucket_bytes: usize,
}
