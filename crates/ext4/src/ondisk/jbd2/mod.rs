//! The journal (jbd2): its superblock, and the blocks of its log.
//!
//! Layout, big-endian. Every block but copies of data starts with a header of
//! three words: magic number, block type, transaction. The superblock is the
//! journal's first block; from `s_first` on, the log goes round in circles:
//!
//! ```text
//! [descriptor: tags][data][data]...[descriptor]...[revoke]...[commit]  next transaction
//! ```
//!
//! A tag says where one data block belongs. Its size depends on the features:
//!
//! | features | bytes | fields |
//! |---|---|---|
//! | none | 8 | home (4), 0 (2), flags (2) |
//! | 64bit | 12 | home (4), 0 (2), flags (2), home's high half (4) |
//! | `csum_v2` | 10 | home (4), checksum (2), flags (2), unused (2) |
//! | `csum_v2`, 64bit | 14 | home (4), checksum (2), flags (2), high half (4), unused (2) |
//! | `csum_v3` | 16 | home (4), flags (4), high half (4), checksum (4) |
//!
//! and 16 bytes of UUID follow unless the tag says that it is the same as
//! before. With `csum_v2` and `csum_v3` each descriptor and revoke block ends in
//! a CRC-32C of itself, and each commit block holds one.

mod block;
mod crc32;
mod encode;
mod superblock;

pub use block::{BlockKind, Commit, Format, Tag, commit, log_block};
pub use crc32::Crc32;
pub use encode::looks_like_log;
pub use superblock::{Features, JournalSuperblock, SUPERBLOCK_BYTES};

use crate::ondisk::checksum::Crc32c;
use std::fmt;

/// The number that each of the journal's own blocks starts with.
pub const MAGIC: u32 = 0xC03B_3998;

/// A transaction's number. Numbers wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tid(pub u32);

impl Tid {
    /// Whether this transaction is older than `other`, of two that are less than 2^31 apart.
    #[must_use]
    pub fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) > u32::MAX / 2
    }

    /// The transaction after this one.
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

/// The checksum of `bytes` with the four at `at` taken as zeros.
fn zeroed(seed: Crc32c, bytes: &[u8], at: usize) -> Crc32c {
    let (before, rest) = bytes.split_at(at.min(bytes.len()));
    seed.bytes(before)
        .bytes(&[0; 4])
        .bytes(rest.get(4..).unwrap_or_default())
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
