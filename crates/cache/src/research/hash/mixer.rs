//! Mixers: functions of one or two rounds, each of which is a xor with the upper bits and a multiplication.
//! After the rounds, each bit of the key affects each bit of the hash with a probability of about one half.
//!
//! The shifts and multipliers are as published. Since all bits are mixed equally, the bucket is the lower
//! bits.

use super::HashKey;
use super::word::{Word, Word32, Word64};

/// Computes two rounds and a last xor.
#[inline]
fn two_rounds<W: Word>(key: HashKey, bits: u32, shifts: [u32; 3], multipliers: [u64; 2]) -> u32 {
    let word = W::joined(key);
    let word = (word ^ word.right(shifts[0])) * W::new(multipliers[0]);
    let word = (word ^ word.right(shifts[1])) * W::new(multipliers[1]);
    (word ^ word.right(shifts[2])).masked(bits)
}

/// The finaliser of A. Appleby's `MurmurHash3`, 32 bits: `fmix32`.
#[inline]
pub(super) fn murmur_32(key: HashKey, bits: u32) -> u32 {
    two_rounds::<Word32>(key, bits, [16, 13, 16], [0x85eb_ca6b, 0xc2b2_ae35])
}

/// The finaliser of A. Appleby's `MurmurHash3`, 64 bits: `fmix64`.
#[inline]
pub(super) fn murmur_64(key: HashKey, bits: u32) -> u32 {
    const MULTIPLIERS: [u64; 2] = [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53];
    two_rounds::<Word64>(key, bits, [33, 33, 33], MULTIPLIERS)
}

/// A mixer that C. Wellons found by a search for the least bias, 32 bits.
#[inline]
pub(super) fn low_bias_32(key: HashKey, bits: u32) -> u32 {
    two_rounds::<Word32>(key, bits, [16, 15, 16], [0x7feb_352d, 0x846c_a68b])
}

/// Variant 13 of the mixers that D. Stafford found by search: the finaliser of `SplitMix64`.
#[inline]
pub(super) fn split_mix_64(key: HashKey, bits: u32) -> u32 {
    const MULTIPLIERS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
    two_rounds::<Word64>(key, bits, [30, 27, 31], MULTIPLIERS)
}

/// A mixer that P. Evensen found by search.
#[inline]
pub(super) fn more_mur(key: HashKey, bits: u32) -> u32 {
    const MULTIPLIERS: [u64; 2] = [0x3c79_ac49_2ba7_b653, 0x1c69_b3f7_4ac4_ae35];
    two_rounds::<Word64>(key, bits, [27, 33, 27], MULTIPLIERS)
}

/// The finaliser of Y. Collet's XXH3: one round, for input that is already mixed.
#[inline]
pub(super) fn xxh3_avalanche(key: HashKey, bits: u32) -> u32 {
    let word = Word64::joined(key);
    let word = (word ^ word.right(37)) * Word64::new(0x1656_6791_9e37_79f9);
    (word ^ word.right(32)).masked(bits)
}

/// The finaliser of XXH3 for short inputs, which are not mixed yet: P. Evensen's rotations and two rounds.
#[inline]
pub(super) fn xxh3_rrmxmx(key: HashKey, bits: u32) -> u32 {
    /// The length of the input in bytes.
    const LENGTH: u64 = 8;
    let multiplier = Word64::new(0x9fb2_1c65_1e98_df25);
    let word = Word64::joined(key);
    let word = (word ^ word.rotated(49) ^ word.rotated(24)) * multiplier;
    let word = (word ^ (word.right(35) + Word64::new(LENGTH))) * multiplier;
    (word ^ word.right(28)).masked(bits)
}
