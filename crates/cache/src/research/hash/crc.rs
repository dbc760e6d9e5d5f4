//! CRC-32C as a hash function. Processors of the x86 and Arm families have an instruction that computes it.

use super::HashKey;

/// Returns the lower bits of the CRC-32C of both numbers, which are encoded as 16 bytes in little endian.
///
/// The library uses the instruction if the processor has it, and tests this at each call. The library is
/// optimized for long inputs.
#[inline]
pub(super) fn crc32c(key: HashKey, bits: u32) -> u32 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.object.to_le_bytes());
    bytes[8..].copy_from_slice(&key.index.to_le_bytes());
    crc32c::crc32c(&bytes) & !u32::MAX.unbounded_shl(bits)
}
