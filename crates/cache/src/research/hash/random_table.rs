//! Hash functions that use tables of random words, indexed by a key's bytes.
//!
//! # Model
//! Lever 2000, section 5 and appendix B. The appendix is a letter that explains why it costs more to unpack
//! the bytes than to multiply. The appendix mentions "multiple lookups with a single table", but has no code.
//! `table_driven` is a cyclic polynomial: it rotates the hash between lookups, so that the effect of a byte
//! depends on its position.
//!
//! The random words are computed at compile time, from seeds that are not secret.

use super::HashKey;
use super::word::Word;

/// The number of values of a byte.
const BYTES: usize = 256;

/// The single table.
static WORDS: [u64; BYTES] = {
    let mut words = [0; BYTES];
    let mut at = 0;
    while at < BYTES {
        words[at] = random_word(0x1999_0415, at as u64);
        at += 1;
    }
    words
};

/// A table for each byte of a key's two numbers.
static TABLES: [[u32; BYTES]; 16] = {
    let mut tables = [[0; BYTES]; 16];
    let mut at = 0;
    while at < 16 * BYTES {
        tables[at / BYTES][at % BYTES] = (random_word(0x2000_1010, at as u64) >> 32) as u32;
        at += 1;
    }
    tables
};

/// Returns word `at` of the stream that `SplitMix64` generates from `seed`.
const fn random_word(seed: u64, at: u64) -> u64 {
    let state = seed.wrapping_add((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The function with a single table: a lookup for each byte of the word, and a rotation by one bit between
/// two lookups.
#[inline]
pub(super) fn table_driven<W: Word>(key: HashKey, bits: u32) -> u32 {
    let word = W::joined(key);
    let bytes = (0..W::BITS).step_by(8).map(|at| word.right(at).masked(8));
    let hash = bytes.fold(W::new(0), |hash, byte| {
        hash.rotated(1) ^ W::new(WORDS[byte as usize])
    });
    hash.masked(bits)
}

/// Simple tabulation: a lookup for each byte of both numbers in a separate table. The hashes of any three
/// keys are independent.
#[inline]
pub(super) fn tabulation(key: HashKey, bits: u32) -> u32 {
    let (object, index) = (key.object.to_le_bytes(), key.index.to_le_bytes());
    let bytes = object.iter().chain(&index);
    let words = TABLES.iter().zip(bytes);
    let hash = words.fold(0, |hash, (table, byte)| hash ^ table[usize::from(*byte)]);
    hash & !u32::MAX.unbounded_shl(bits)
}
