//! Checksums of metadata: CRC-32C (`metadata_csum`) and CRC-16 (`uninit_bg`).
//!
//! Model: ext4 uses CRC-32C without the usual final inversion, so that a checksum can be continued
//! with the next field. Each inode has its own seed, which is also used for all blocks that belong
//! to it.

/// A CRC-32C in ext4's convention: the initial value is all ones, and the result is not inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32c(pub u32);

impl Crc32c {
    /// The checksum of an empty input.
    pub const START: Self = Self(!0);

    /// Returns this checksum, continued with `bytes`.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        Self(!crc32c::crc32c_append(!self.0, bytes))
    }

    /// Returns this checksum, continued with a number in little-endian order.
    #[must_use]
    pub fn u32(self, number: u32) -> Self {
        self.bytes(&number.to_le_bytes())
    }
}

/// Continues the CRC-16 (ANSI polynomial, reflected) in `crc` with `bytes`.
pub(crate) fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, byte| {
        let [low, high] = crc.to_le_bytes();
        CRC16_TABLE[usize::from(low ^ byte)] ^ u16::from(high)
    })
}

const CRC16_TABLE: [u16; 256] = crc16_table();

const fn crc16_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index: u16 = 0;
    while index < 256 {
        let mut crc = index;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xA001
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc16_of_check_string_is_the_catalogued_value() {
        // CRC-16/ARC starts from 0, CRC-16/MODBUS from all ones.
        assert_eq!(crc16(0, b"123456789"), 0xBB3D);
        assert_eq!(crc16(!0, b"123456789"), 0x4B37);
    }

    #[test]
    fn crc32c_of_check_string_is_the_inverse_of_the_catalogued_value() {
        assert_eq!(Crc32c::START.bytes(b"123456789"), Crc32c(!0xE306_9283));
    }

    #[test]
    fn crc32c_in_parts_equals_crc32c_of_the_whole() {
        let parts = Crc32c::START.bytes(b"1234").bytes(b"56789");
        assert_eq!(parts, Crc32c::START.bytes(b"123456789"));
        assert_eq!(Crc32c::START.u32(0x3433_3231), Crc32c::START.bytes(b"1234"));
    }
}
