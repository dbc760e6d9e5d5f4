//! Kinds of sequences.

/// What sequences are made of.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Direct writes.
    pub direct: bool,
    /// Allocating, zeroing and moving ranges, beside punching.
    pub ranges: bool,
}

impl Mix {
    /// Everything.
    pub const ALL: Self = Self {
        direct: true,
        ranges: true,
    };
    /// What the kernel's ext4 does without a fault: writes, cuts, holes and copies.
    pub const PLAIN: Self = Self {
        direct: false,
        ranges: false,
    };
}
