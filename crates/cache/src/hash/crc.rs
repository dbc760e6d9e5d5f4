//! CRC-32C as a hash function: x86 and Arm have an instruction for it.

use super::HashKey;

/// CRC-32C of both numbers, 16 bytes, little-endian.
///
/// The instruction is used where the processor has it, which is asked at each call; the library
/// that does so is made for long inputs.
#[inline]
pub(super) fn crc32c(key: HashKey, bits: u32) -> u32 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.object.to_le_bytes());
    bytes[8..].copy_from_slice(&key.index.to_le_bytes());
    crc32c::crc32c(&bytes) & !u32::MAX.unbounded_shl(bits)
}
