//! The sizes of an arena and of its table.

/// The sizes of an arena that grows by chunks, and of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaConfig {
    /// The largest number of slots.
    pub slots: u32,
    /// The number of slots in a chunk. Each chunk after the first takes the memory of one frame of the
    /// pool.
    pub chunk: u32,
    /// The number of buckets of the table is 2^`bits`.
    pub bits: u32,
    /// The size of a bucket in bytes.
    pub bucket_bytes: usize,
}
