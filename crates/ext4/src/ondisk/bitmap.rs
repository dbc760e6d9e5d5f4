//! Bitmaps of blocks and inodes. Each bitmap is one block of a group, and starts with the least
//! significant bit of its first byte. A set bit means in use.
//!
//! All bits of the block after the group's last bit are set. With `metadata_csum`, the descriptor
//! holds the checksum of the bytes that contain the group's bits, without this padding.

use super::superblock::Superblock;
use std::ops::Range;

/// Returns the checksum of the block bitmap `bytes`.
pub fn block_bitmap_checksum(sb: &Superblock, bytes: &[u8]) -> u32 {
    checksum(sb, bytes, sb.blocks_per_group >> sb.cluster_blocks_log2)
}

/// Returns the checksum of the inode bitmap `bytes`.
pub fn inode_bitmap_checksum(sb: &Superblock, bytes: &[u8]) -> u32 {
    checksum(sb, bytes, sb.inodes_per_group)
}

fn checksum(sb: &Superblock, bytes: &[u8], bits: u32) -> u32 {
    let len = bytes.len().min((bits / 8) as usize);
    sb.checksum_seed.bytes(&bytes[..len]).0
}

/// Returns whether `bit` is set. Bits past the end of `bytes` count as set.
pub fn is_set(bytes: &[u8], bit: u32) -> bool {
    bytes
        .get((bit / 8) as usize)
        .is_none_or(|byte| byte & (1 << (bit % 8)) != 0)
}

/// Returns whether all `bits` have the value `is_set`. Returns false if `bits` extend past the end
/// of `bytes`.
pub fn all(bytes: &[u8], bits: Range<u32>, is_set: bool) -> bool {
    let wanted = if is_set { u8::MAX } else { 0 };
    parts(bits).all(|(at, mask)| {
        bytes
            .get(at)
            .is_some_and(|byte| (byte ^ wanted) & mask == 0)
    })
}

/// Sets or clears `bits`, and ignores bits past the end of `bytes`.
pub fn fill(bytes: &mut [u8], bits: Range<u32>, is_set: bool) {
    for (at, mask) in parts(bits) {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = if is_set { *byte | mask } else { *byte & !mask };
        }
    }
}

/// Returns the first clear bit in `start..end`.
pub fn first_clear(bytes: &[u8], start: u32, end: u32) -> Option<u32> {
    let mut bit = start;
    while bit < end {
        let byte = *bytes.get((bit / 8) as usize)?;
        let from = byte | ((1 << (bit % 8)) - 1);
        if from != u8::MAX {
            let found = bit / 8 * 8 + from.trailing_ones();
            return (found < end).then_some(found);
        }
        bit = (bit / 8 + 1) * 8;
    }
    None
}

/// Returns the indexes of the bytes that contain `bits`, each with a mask of those bits.
fn parts(bits: Range<u32>) -> impl Iterator<Item = (usize, u8)> {
    let bytes = bits.start / 8..if bits.is_empty() {
        bits.start / 8
    } else {
        bits.end.div_ceil(8)
    };
    bytes.map(move |byte| {
        let from = bits.start.saturating_sub(byte * 8);
        let to = (bits.end - byte * 8).min(8);
        let below = |bit: u32| (1_u16 << bit) - 1;
        let [mask, _] = (below(to) & !below(from)).to_le_bytes();
        (byte as usize, mask)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmap_fill_changes_only_its_range() {
        for start in 0..24 {
            for end in start..24 {
                let mut bytes = [0; 3];
                fill(&mut bytes, start..end, true);
                for bit in 0..24 {
                    assert_eq!(is_set(&bytes, bit), (start..end).contains(&bit));
                }
                assert!(all(&bytes, start..end, true));
                assert_eq!(
                    first_clear(&bytes, start, 24),
                    (end < 24).then_some(end),
                    "{start}..{end}"
                );
                fill(&mut bytes, start..end, false);
                assert_eq!(bytes, [0; 3]);
            }
        }
    }

    #[test]
    fn bits_past_the_end_count_as_used_and_are_not_changed() {
        let mut bytes = [0; 1];
        fill(&mut bytes, 4..20, true);
        assert_eq!(bytes, [0xF0]);
        assert!(is_set(&bytes, 8));
        assert!(!all(&bytes, 4..20, true));
        assert_eq!(first_clear(&[0xFF], 0, 100), None);
    }
}
