//! The superblock: 1,024 bytes at byte 1,024 of the image.
//!
//! Parsing checks everything that later arithmetic relies on, so that no number in a [`Superblock`]
//! can cause a division by zero, an overflow or an unbounded loop in its callers. The fields are
//! decoded: sizes are in bytes, 64-bit counts are joined, and features that change a field's
//! meaning are applied.

mod backup;
mod decoded;
mod edit;
mod raw;

pub use backup::SuperblockRepair;
pub use decoded::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET_BYTES, State, Superblock};
pub use edit::{ErrorCode, ErrorRecord, LABEL_BYTES, SuperblockEdit};
