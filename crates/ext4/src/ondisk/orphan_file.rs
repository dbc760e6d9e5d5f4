//! A block of the orphan file: an array of slots, each with the inode number of an orphan or 0, and
//! a tail.
//!
//! ```text
//! slots: inode number (4) each
//! tail, the last 8 bytes: magic number (4), checksum (4)
//! ```

use super::Damage;
use super::checksum::Crc32c;
use super::fields::put32;
use crate::{FsBlock, Ino};

const SLOT_BYTES: usize = 4;
const TAIL_BYTES: usize = 8;
const MAGIC: u32 = 0x0B10_CA04;

/// Iterates over the slots of a block.
pub fn slots(block: &[u8]) -> impl Iterator<Item = Option<Ino>> {
    let (slots, _) = split(block);
    let (slots, _) = slots.as_chunks();
    slots
        .iter()
        .map(|slot| Ino::stored(u32::from_le_bytes(*slot)))
}

/// Stores an inode number in slot `index`, or 0 for `None`. Panics if there is no such slot.
pub fn set_slot(block: &mut [u8], index: usize, ino: Option<Ino>) {
    put32(block, index * SLOT_BYTES, ino.map_or(0, |ino| ino.0));
}

/// Checks the magic number and, if `seed` is given, the checksum. `seed` must be the seed of the
/// orphan file.
pub fn check(block: &[u8], at: FsBlock, seed: Option<Crc32c>) -> Result<(), Damage> {
    let (slots, tail) = split(block);
    let [m0, m1, m2, m3, c0, c1, c2, c3] = *tail else {
        return Err("orphan file block is too short");
    };
    if u32::from_le_bytes([m0, m1, m2, m3]) != MAGIC {
        return Err("orphan file block has no magic number");
    }
    let stored = u32::from_le_bytes([c0, c1, c2, c3]);
    if seed.is_some_and(|seed| checksum(slots, at, seed) != stored) {
        return Err("checksum of the orphan file block is wrong");
    }
    Ok(())
}

/// Sets the checksum that [`check`] checks.
pub fn set_checksum(block: &mut [u8], at: FsBlock, seed: Crc32c) {
    let (slots, _) = split(block);
    let checksum = checksum(slots, at, seed);
    if let Some((_, place)) = block.split_last_chunk_mut::<4>() {
        *place = checksum.to_le_bytes();
    }
}

fn checksum(slots: &[u8], at: FsBlock, seed: Crc32c) -> u32 {
    seed.bytes(&at.0.to_le_bytes()).bytes(slots).0
}

fn split(block: &[u8]) -> (&[u8], &[u8]) {
    block.split_at(block.len().saturating_sub(TAIL_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_valid_only_for_the_block_number() {
        let mut block = vec![0; 1024];
        block[1016..1020].copy_from_slice(&MAGIC.to_le_bytes());
        let seed = Some(Crc32c(1));
        assert!(check(&block, FsBlock(9), seed).is_err());
        set_slot(&mut block, 253, Some(Ino(77)));
        set_checksum(&mut block, FsBlock(9), Crc32c(1));
        assert_eq!(check(&block, FsBlock(9), seed), Ok(()));
        assert!(check(&block, FsBlock(8), seed).is_err());
        let found: Vec<_> = slots(&block)
            .enumerate()
            .filter(|slot| slot.1.is_some())
            .collect();
        assert_eq!(found, [(253, Some(Ino(77)))]);
        assert_eq!(slots(&block).count(), 254);
        block[1016] = 0;
        assert!(check(&block, FsBlock(9), None).is_err());
        assert!(check(&[1; 3], FsBlock(9), None).is_err());
    }
}
