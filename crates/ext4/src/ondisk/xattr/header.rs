//! The header of an attribute block: its reference count, hash and checksum.
//!
//! # Cost
//! A CRC is linear: the change of the CRC that one flipped bit causes depends only on the position
//! of the bit. Updating the checksum after a change of the reference count therefore takes at most
//! 32 exclusive ors, and reads no other part of the block.

use super::entry::CHECKSUM_OFFSET;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::fields::{le32, put32};
use std::ops::Range;

pub(super) const REFERENCES_AT: usize = 4;
pub(super) const BLOCKS_AT: usize = 8;
pub(super) const HASH_AT: usize = 12;

/// The contents of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// The number of inodes that use the block.
    pub references: u32,
    /// The hash of the attributes in the block; 0 if the block must not be shared.
    pub hash: u32,
}

impl BlockHeader {
    /// Returns the header of `block`, or `None` if the block is too short.
    #[must_use]
    pub fn of(block: &[u8]) -> Option<Self> {
        Some(Self {
            references: le32(block, REFERENCES_AT)?,
            hash: le32(block, HASH_AT)?,
        })
    }
}

/// Returns whether two blocks have the same attributes in the same places: all bytes except the
/// reference count and the checksum are equal.
#[must_use]
pub fn has_same_contents(block: &[u8], other: &[u8]) -> bool {
    // The bytes that are most likely to differ are compared first.
    let parts = [
        HASH_AT..CHECKSUM_OFFSET,
        CHECKSUM_OFFSET + 4..block.len(),
        0..REFERENCES_AT,
        BLOCKS_AT..HASH_AT,
    ];
    let is_same = |part: Range<usize>| block.get(part.clone()) == other.get(part);
    block.len() == other.len() && parts.into_iter().all(is_same)
}

/// Sets the checksum of the attribute block `block`. `seed` must be the seed of the file system,
/// continued with the block number in 64 bits.
pub fn set_block_checksum(block: &mut [u8], seed: Crc32c) {
    put32(block, CHECKSUM_OFFSET, 0);
    let checksum = seed.bytes(block);
    put32(block, CHECKSUM_OFFSET, checksum.0);
}

/// A table to update the reference counts of attribute blocks together with their checksums.
#[derive(Debug, Default)]
pub struct UserCount {
    /// The change of the checksum for each bit of the count.
    checksum_changes: [u32; 32],
}

impl UserCount {
    /// The part of a block from the reference count to the checksum.
    pub const PART: Range<usize> = REFERENCES_AT..CHECKSUM_OFFSET + 4;

    /// Creates the table for blocks of `block_bytes` with checksums.
    #[must_use]
    pub fn new(block_bytes: usize) -> Self {
        let mut block = vec![0; block_bytes];
        let of_zeros = Crc32c(0).bytes(&block).0;
        let checksum_changes = std::array::from_fn(|bit| {
            put32(&mut block, REFERENCES_AT, 1 << bit);
            Crc32c(0).bytes(&block).0 ^ of_zeros
        });
        Self { checksum_changes }
    }

    /// Sets the reference count in `part`, which must be the bytes [`UserCount::PART`] of a block
    /// with a correct checksum, and updates the checksum.
    pub fn set(&self, part: &mut [u8], references: u32) {
        const CHECKSUM_AT: usize = CHECKSUM_OFFSET - REFERENCES_AT;
        let (Some(before), Some(mut checksum)) = (le32(part, 0), le32(part, CHECKSUM_AT)) else {
            return;
        };
        let mut changed = before ^ references;
        while changed != 0 {
            checksum ^= self.checksum_changes[changed.trailing_zeros() as usize];
            changed &= changed - 1;
        }
        put32(part, 0, references);
        put32(part, CHECKSUM_AT, checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn contents_are_compared_without_users_and_checksum() {
        let block: Vec<u8> = (0..1024_u32).map(|at| at.to_le_bytes()[0]).collect();
        for at in 0..block.len() {
            let mut other = block.clone();
            other[at] ^= 1;
            let is_left_out = (4..8).contains(&at) || (16..20).contains(&at);
            assert_eq!(has_same_contents(&block, &other), is_left_out, "byte {at}");
        }
        assert!(!has_same_contents(&block, &block[..1020]));
    }

    proptest! {
        #[test]
        fn checksum_updated_with_the_users_is_valid(
            mut block in prop::collection::vec(any::<u8>(), 1024),
            seed: u32,
            references: u32,
        ) {
            set_block_checksum(&mut block, Crc32c(seed));
            UserCount::new(1024).set(&mut block[UserCount::PART], references);
            let counted = block.clone();
            set_block_checksum(&mut block, Crc32c(seed));
            prop_assert_eq!(counted, block);
        }

        #[test]
        fn block_without_a_checksum_keeps_the_field(references: u32) {
            let mut block = vec![7; 1024];
            UserCount::default().set(&mut block[UserCount::PART], references);
            prop_assert_eq!(BlockHeader::of(&block).unwrap().references, references);
            prop_assert_eq!(&block[8..], &[7; 1016]);
        }
    }
}
