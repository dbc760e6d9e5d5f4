//! The hash of a name, with which the index of a directory finds the leaf that contains the name.
//!
//! There are three hash functions, each in a signed and an unsigned form. Whether a C `char` is
//! signed depends on the platform, so some file systems hash bytes above 127 in names as negative
//! numbers. The flags of the superblock record the form. `HalfMd4` and `Tea` start from the seed in
//! the superblock, if there is one.
//!
//! The lowest bit of a hash is always zero: the index uses this bit to mark a leaf if the preceding
//! leaf contains names with the same hash.

/// The initial state if there is no seed: the initial state of MD4.
const DEFAULT_SEED: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The greatest hash, which marks the end of a directory. A name with this hash is given a smaller
/// hash.
const END_OF_DIRECTORY: u32 = 0xffff_fffe;
const LAST_HASH: u32 = 0xffff_fffc;

/// The hash function of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFunction {
    /// The function of the first indexed directories.
    Legacy,
    /// MD4 with three rounds of eight steps: the default.
    HalfMd4,
    /// The Tiny Encryption Algorithm as a hash.
    Tea,
}

/// A hash function, and the way in which it extends bytes above 127.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashVersion {
    /// The function.
    pub function: HashFunction,
    /// Whether bytes are treated as signed, from -128 to 127.
    pub signed: bool,
}

impl HashVersion {
    /// Returns the hash version for `version` from the root of an index.
    ///
    /// Some versions do not specify whether bytes are signed. For these versions, `unsigned_names`, a flag of
    /// the superblock, specifies it. Returns `None` for versions that do not hash plain-text names: unknown
    /// versions, and `siphash`, which needs a key.
    #[must_use]
    pub fn from_disk(version: u8, unsigned_names: bool) -> Option<Self> {
        let function = match version % 3 {
            0 => HashFunction::Legacy,
            1 => HashFunction::HalfMd4,
            _ => HashFunction::Tea,
        };
        match version {
            0..=2 => Some(Self {
                function,
                signed: !unsigned_names,
            }),
            3..=5 => Some(Self {
                function,
                signed: false,
            }),
            _ => None,
        }
    }

    /// Returns the hash of `name` with `seed`. If the seed is all zeros, the default seed is used.
    #[must_use]
    pub fn hash(self, seed: [u32; 4], name: &[u8]) -> u32 {
        let start = if seed == [0; 4] { DEFAULT_SEED } else { seed };
        let hash = match self.function {
            HashFunction::Legacy => legacy(name, self.signed),
            HashFunction::HalfMd4 => {
                let mut state = start;
                for at in (0..name.len()).step_by(32) {
                    half_md4(&mut state, &pack(&name[at..], self.signed));
                }
                state[1]
            }
            HashFunction::Tea => {
                let mut state = [start[0], start[1]];
                for at in (0..name.len()).step_by(16) {
                    tea(&mut state, &pack(&name[at..], self.signed));
                }
                state[0]
            }
        } & !1;
        if hash == END_OF_DIRECTORY {
            LAST_HASH
        } else {
            hash
        }
    }
}

/// Extends a byte of a name to a 32-bit number.
fn widen(byte: u8, signed: bool) -> u32 {
    if signed {
        i32::from(byte.cast_signed()).cast_unsigned()
    } else {
        u32::from(byte)
    }
}

fn legacy(name: &[u8], signed: bool) -> u32 {
    let (mut current, mut previous) = (0x12a3_fe2d_u32, 0x37ab_e8f9_u32);
    for &byte in name {
        let mixed = current ^ widen(byte, signed).wrapping_mul(7_152_373);
        let mut next = previous.wrapping_add(mixed);
        if next & 0x8000_0000 != 0 {
            next = next.wrapping_sub(0x7fff_ffff);
        }
        (previous, current) = (current, next);
    }
    current << 1
}

/// Packs the first bytes of `rest`, the remainder of a name, into big-endian words. Missing bytes
/// have the value of the length of `rest`.
fn pack<const WORDS: usize>(rest: &[u8], signed: bool) -> [u32; WORDS] {
    // A name has at most 255 bytes. For a longer one, the low byte of the length is the padding.
    let pad = u32::from_ne_bytes([rest.len().to_le_bytes()[0]; 4]);
    let mut words = [pad; WORDS];
    for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
        for &byte in bytes {
            *word = (*word << 8).wrapping_add(widen(byte, signed));
        }
    }
    words
}

/// Processes one block like MD4, but with half as many words, and so with half as many steps in
/// each round.
fn half_md4(state: &mut [u32; 4], words: &[u32; 8]) {
    type Mix = fn(u32, u32, u32) -> u32;
    /// Mixing function, constant, order of the words, rotations.
    const ROUNDS: [(Mix, u32, [usize; 8], [u32; 4]); 3] = [
        (choose, 0, [0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19]),
        (
            majority,
            0x5a82_7999,
            [1, 3, 5, 7, 0, 2, 4, 6],
            [3, 5, 9, 13],
        ),
        (
            parity,
            0x6ed9_eba1,
            [3, 7, 2, 6, 1, 5, 0, 4],
            [3, 9, 11, 15],
        ),
    ];
    let [mut a, mut b, mut c, mut d] = *state;
    for (mix, constant, order, rotations) in ROUNDS {
        for (step, word) in order.into_iter().enumerate() {
            let sum = a
                .wrapping_add(mix(b, c, d))
                .wrapping_add(words[word])
                .wrapping_add(constant);
            (a, d, c, b) = (d, c, b, sum.rotate_left(rotations[step % 4]));
        }
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(add);
    }
}

fn choose(x: u32, y: u32, z: u32) -> u32 {
    (x & y) | (!x & z)
}

fn majority(x: u32, y: u32, z: u32) -> u32 {
    (x & y) | (x & z) | (y & z)
}

fn parity(x: u32, y: u32, z: u32) -> u32 {
    x ^ y ^ z
}

/// Encrypts the state with sixteen double rounds of the Tiny Encryption Algorithm, and adds the
/// result to the state. The key is the words of the name.
fn tea(state: &mut [u32; 2], key: &[u32; 4]) {
    let [mut left, mut right] = *state;
    let mut sum = 0_u32;
    let half = |half: u32, sum: u32, low: u32, high: u32| {
        (half << 4).wrapping_add(low) ^ half.wrapping_add(sum) ^ (half >> 5).wrapping_add(high)
    };
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9e37_79b9);
        left = left.wrapping_add(half(right, sum, key[0], key[1]));
        right = right.wrapping_add(half(left, sum, key[2], key[3]));
    }
    state[0] = state[0].wrapping_add(left);
    state[1] = state[1].wrapping_add(right);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(hex: &str) -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect()
    }

    fn seed_of(hex: &str) -> [u32; 4] {
        let bytes = bytes_of(hex);
        std::array::from_fn(|at| u32::from_le_bytes(bytes[at * 4..][..4].try_into().unwrap()))
    }

    #[test]
    fn hash_of_known_names_equals_debugfs() {
        let table = include_str!("../../tests/data/name_hashes.tsv");
        let mut rows = 0;
        for row in table.lines().filter(|row| !row.starts_with('#')) {
            let [version, seed, name, hash] = row.split('\t').collect::<Vec<_>>()[..] else {
                panic!("row {row:?}");
            };
            let version = HashVersion::from_disk(version.parse().unwrap(), false).unwrap();
            assert_eq!(
                version.hash(seed_of(seed), &bytes_of(name)),
                u32::from_str_radix(hash, 16).unwrap(),
                "{row}"
            );
            rows += 1;
        }
        assert_eq!(rows, 620, "rows of the table");
    }

    #[test]
    fn version_with_unsigned_flag_is_unsigned() {
        for version in 0..3 {
            assert_eq!(
                HashVersion::from_disk(version, true),
                HashVersion::from_disk(version + 3, false)
            );
        }
    }

    #[test]
    fn unknown_hash_version_is_none() {
        assert!((6..=255).all(|version| HashVersion::from_disk(version, false).is_none()));
    }

    proptest! {
        #[test]
        fn hash_of_any_bytes_avoids_the_low_bit_and_the_end_marker(
            version in 0_u8..6, seed in any::<[u32; 4]>(), name in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let hash = HashVersion::from_disk(version, false).unwrap().hash(seed, &name);
            prop_assert_eq!(hash & 1, 0);
            prop_assert_ne!(hash, END_OF_DIRECTORY);
        }
    }
}
