//! Access to fields: little-endian numbers at an offset, numbers split into two fields, and text.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::transmute;

/// Returns the 16 bits at offset `at`, or `None` if `bytes` is too short.
pub(crate) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the 32 bits at offset `at`, or `None` if `bytes` is too short.
pub(crate) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Stores 16 bits at offset `at`. Panics if `bytes` is too short.
pub(crate) fn put16(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_le_bytes());
}

/// Stores 32 bits at offset `at`. Panics if `bytes` is too short.
pub(crate) fn put32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// Joins the halves of a number.
pub(crate) fn join16(low: U16, high: U16) -> u32 {
    u32::from(low) | (u32::from(high) << 16)
}

/// Joins the halves of a number. The high half may have only 16 bits.
pub(crate) fn join32(low: U32, high: impl Into<u64>) -> u64 {
    u64::from(low) | (high.into() << 32)
}

/// Splits `number` into its low and high half.
pub(crate) fn halves16(number: u32) -> (U16, U16) {
    <[U16; 2]>::into(transmute!(U32::new(number)))
}

/// Splits `number` into its low and high half.
pub(crate) fn halves32(number: u64) -> (U32, U32) {
    <[U32; 2]>::into(transmute!(U64::new(number)))
}

/// Returns the text in `bytes` up to the first NUL, or all of it.
pub(crate) fn until_nul(bytes: &[u8]) -> Vec<u8> {
    let text = bytes.split(|&byte| byte == 0).next();
    text.unwrap_or_default().to_vec()
}
