//! The limits of profiles and packs.

use crate::UNIT_BYTES;

/// The maximum number of units of a profile or a pack. They take 4 GiB.
pub const MAX_UNITS: usize = 1 << 16;

/// The maximum length of an `ETag` in a profile or a pack, in bytes.
pub(super) const MAX_ETAG_BYTES: usize = 1024;

/// The maximum size of an object that has a profile. The offsets of its bytes are valid file offsets.
pub(super) const MAX_OBJECT_BYTES: u64 = i64::MAX as u64;

/// Returns the number of units of an object.
pub(super) fn unit_count(object_bytes: u64) -> u64 {
    object_bytes.div_ceil(UNIT_BYTES)
}
