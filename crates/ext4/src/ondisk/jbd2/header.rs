//! Common parts of the blocks of a journal: the magic number, transaction numbers, features, and
//! big-endian words.

use crate::ondisk::checksum::Crc32c;
use bitflags::bitflags;
use std::fmt;

/// The magic number at the start of each of the journal's own blocks.
pub const MAGIC: u32 = 0xC03B_3998;

bitflags! {
    /// Features that readers must support.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Features: u32 {
        /// The log may contain revoke blocks.
        const REVOKE = 0x1;
        /// Block numbers of 64 bits.
        const BIT64 = 0x2;
        /// Commit blocks are written without waiting for the blocks of the transaction.
        const ASYNC_COMMIT = 0x4;
        /// Blocks have checksums, of which tags store 16 bits.
        const CSUM_V2 = 0x8;
        /// Blocks have checksums, of which tags store 32 bits.
        const CSUM_V3 = 0x10;
        /// The last blocks of the journal are reserved for fast commits.
        const FAST_COMMIT = 0x20;
    }
}

/// A transaction number. Numbers wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tid(pub u32);

impl Tid {
    /// Returns whether this transaction is older than `other`. The two must be less than 2^31
    /// apart.
    #[must_use]
    pub fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) > u32::MAX / 2
    }

    /// Returns the number of the next transaction.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the checksum of `bytes` with the four bytes at `at` treated as zeros.
pub(super) fn zeroed(seed: Crc32c, bytes: &[u8], at: usize) -> Crc32c {
    let (before, rest) = bytes.split_at(at.min(bytes.len()));
    seed.bytes(before)
        .bytes(&[0; 4])
        .bytes(rest.get(4..).unwrap_or_default())
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
