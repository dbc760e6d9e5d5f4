//! Numbers and text in fields: little-endian numbers at a place in bytes, numbers in two fields.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::transmute;

/// The 16 bits at byte `at`; `None` if `bytes` are too few.
pub(crate) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The 32 bits at byte `at`; `None` if `bytes` are too few.
pub(crate) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Stores 16 bits at byte `at`, which `bytes` must have.
pub(crate) fn put16(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_le_bytes());
}

/// Stores 32 bits at byte `at`, which `bytes` must have.
pub(crate) fn put32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// The number whose halves are `low` and `high`.
pub(crate) fn join16(low: U16, high: U16) -> u32 {
    u32::from(low) | (u32::from(high) << 16)
}

/// The number whose halves are `low` and `high`, which may be stored in 16 bits alone.
pub(crate) fn join32(low: U32, high: impl Into<u64>) -> u64 {
    u64::from(low) | (high.into() << 32)
}

/// The low and the high half of `number`.
pub(crate) fn halves16(number: u32) -> (U16, U16) {
    <[U16; 2]>::into(transmute!(U32::new(number)))
}

/// The low and the high half of `number`.
pub(crate) fn halves32(number: u64) -> (U32, U32) {
    <[U32; 2]>::into(transmute!(U64::new(number)))
}

/// The text in `bytes`, which a NUL ends if it is shorter.
pub(crate) fn until_nul(bytes: &[u8]) -> Vec<u8> {
    let text = bytes.split(|&byte| byte == 0).next();
    text.unwrap_or_default().to_vec()
}
