//! The hash of names in the kernels that Lever measured.
//!
//! # Model
//! `full_name_hash` of Linux 2.2, "a simplified CRC algorithm on the target entry's name" (Lever 2000,
//! section 3.3, which does not contain the code). For each byte, the hash is rotated left by 4 bits, and
//! then combined with the byte by an exclusive or.

/// Returns the 32-bit hash of `name`.
#[must_use]
pub fn name_hash(name: &[u8]) -> u32 {
    of_bytes(name.iter().copied())
}

/// Returns the hash of the name in `words`, which are padded with zeros. The name must not contain a zero
/// byte.
pub(super) fn of_words(words: impl Iterator<Item = u64>) -> u32 {
    of_bytes(
        words
            .flat_map(u64::to_le_bytes)
            .take_while(|byte| *byte != 0),
    )
}

fn of_bytes(name: impl Iterator<Item = u8>) -> u32 {
    name.fold(0, |hash: u32, byte| hash.rotate_left(4) ^ u32::from(byte))
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::name_hash;

    #[test]
    fn hashes_of_names_match_golden_values() {
        assert_eq!(name_hash(b""), 0);
        // All numbers are hexadecimal. The letter c is 63.
        assert_eq!(name_hash(b"c"), 0x63);
        // 63 -> 630 ^ 63 = 653.
        assert_eq!(name_hash(b"cc"), 0x653);
        // 6d -> 6d0 ^ 61 = 6b1 -> 6b10 ^ 6b = 6b7b -> 6b7b0 ^ 65 = 6b7d5.
        assert_eq!(name_hash(b"make"), 0x6b7d5);
        // Eight letters 61: 61 -> 671 -> 6771 -> 67771 -> 677771 -> 6777771 -> 67777771
        // -> 77777716 ^ 61 = 77777777. The ninth letter: 77777777 ^ 61 = 77777716.
        assert_eq!(name_hash(b"aaaaaaaa"), 0x7777_7777);
        assert_eq!(name_hash(b"aaaaaaaaa"), 0x7777_7716);
    }
}
