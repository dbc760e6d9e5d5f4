//! Kinds of sequences.

/// The kinds of operations in a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Direct writes.
    pub direct: bool,
    /// Allocating, zeroing and moving ranges, in addition to punching.
    pub ranges: bool,
}

impl Mix {
    /// All operations.
    pub const ALL: Self = Self {
        direct: true,
        ranges: true,
    };
    /// Operations that the kernel's ext4 performs without faults: writes, truncation, holes and copies.
    pub const PLAIN: Self = Self {
        direct: false,
        ranges: false,
    };
}
