//! The fields that all headers of tar archives have, since POSIX.1-1988 (ustar).

use std::ops::Range;

/// The size of a header, and the unit of content, in bytes.
pub(super) const BLOCK_BYTES: usize = 512;

pub(super) const NAME: Range<usize> = 0..100;
pub(super) const MODE: Range<usize> = 100..108;
pub(super) const UID: Range<usize> = 108..116;
pub(super) const GID: Range<usize> = 116..124;
pub(super) const SIZE: Range<usize> = 124..136;
pub(super) const MTIME: Range<usize> = 136..148;
pub(super) const CHECKSUM: Range<usize> = 148..156;
pub(super) const TYPE: usize = 156;
pub(super) const LINK: Range<usize> = 157..257;
/// The name and the version of the format.
pub(super) const MAGIC: Range<usize> = 257..265;
pub(super) const MAJOR: Range<usize> = 329..337;
pub(super) const MINOR: Range<usize> = 337..345;
