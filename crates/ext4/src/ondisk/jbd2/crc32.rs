//! The CRC-32 in commit blocks, which is used if the journal has the compatible feature for it.

/// The CRC-32 of a transaction as commit blocks store it: the most significant bit is first, the
/// initial value is all ones, and the result is not inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32(pub u32);

impl Crc32 {
    /// The checksum of an empty input.
    pub const START: Self = Self(!0);

    /// Returns this checksum, continued with `bytes`.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |crc, byte| {
            let [high, ..] = crc.to_be_bytes();
            (crc << 8) ^ CRC32_TABLE[usize::from(high ^ byte)]
        }))
    }
}

const CRC32_TABLE: [u32; 256] = crc32_table();

const fn crc32_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    let mut seed: u32 = 0;
    while index < table.len() {
        let mut crc = seed << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc >> 31 == 1 { 0x04C1_1DB7 } else { 0 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
        seed += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::Crc32;

    #[test]
    fn check_value_of_crc32_mpeg2_matches() {
        // CRC-32/MPEG-2 has the same polynomial, initial value and bit order.
        assert_eq!(Crc32::START.bytes(b"123456789"), Crc32(0x0376_E6E7));
    }
}
