//! The headers of tar archives: blocks of 512 bytes, with numbers in octal digits or, in GNU tar, in binary.
//!
//! ```text
//!   0 name      100 mode   108 uid   116 gid   124 size   136 mtime   148 checksum
//! 156 type      157 link   257 magic           329, 337 device        345 prefix (ustar)
//!                                    386 runs of a sparse file   482 whether more follow   483 its size (GNU tar)
//! ```

use super::pax::Run;
use crate::commands::tar_header::{
    BLOCK_BYTES, CHECKSUM, GID, LINK, MAGIC, MAJOR, MINOR, MODE, MTIME, NAME, SIZE, TYPE, UID,
};
use larder::Timestamp;
use std::ops::Range;

const PREFIX: Range<usize> = 345..500;
/// The runs of a sparse file in a header of GNU tar.
const RUNS: Range<usize> = 386..482;
const HAS_MORE_RUNS: usize = 482;
const REAL_SIZE: Range<usize> = 483..495;
/// The runs of a sparse file in a block after a header, and the byte after them.
const MORE_RUNS: Range<usize> = 0..504;
/// The size of the two numbers of a run, in bytes.
const RUN_BYTES: usize = 24;

/// A header with the right checksum.
#[derive(Debug)]
pub(super) struct Header([u8; BLOCK_BYTES]);

impl Header {
    /// Returns the header in `block`, or `None` if its checksum is wrong.
    pub(super) fn new(block: &[u8; BLOCK_BYTES]) -> Option<Self> {
        let header = Self(*block);
        let found = number(header.field(CHECKSUM)).ok()?;
        // Old programs add signed bytes.
        let is_valid = found == sum(block, i64::from)
            || found == sum(block, |byte| i64::from(byte.cast_signed()));
        is_valid.then_some(header)
    }

    /// Returns the type of the entry.
    pub(super) fn kind(&self) -> u8 {
        self.0[TYPE]
    }

    /// Returns whether the entry belongs to the next one: a long path or link, a pax header, or the label of the archive.
    pub(super) fn is_extension(&self) -> bool {
        matches!(self.kind(), b'L' | b'K' | b'x' | b'g' | b'V')
    }

    pub(super) fn path(&self) -> Vec<u8> {
        let name = text(self.field(NAME));
        let prefix = text(self.field(PREFIX));
        // Some programs write no version. GNU tar has other fields at the place of the prefix, and a blank after the magic.
        if self.field(MAGIC).starts_with(b"ustar\0") && !prefix.is_empty() {
            return [prefix, b"/", name].concat();
        }
        name.to_vec()
    }

    pub(super) fn link(&self) -> Vec<u8> {
        text(self.field(LINK)).to_vec()
    }

    /// Returns the number of bytes that the archive stores after the header.
    pub(super) fn size_bytes(&self) -> Result<u64, &'static str> {
        size(self.field(SIZE))
    }

    pub(super) fn permissions(&self) -> Result<u16, &'static str> {
        let mode = number(self.field(MODE))?;
        Ok(u16::try_from(mode & 0o7777).unwrap_or(0))
    }

    pub(super) fn uid(&self) -> Result<u32, &'static str> {
        small(self.field(UID))
    }

    pub(super) fn gid(&self) -> Result<u32, &'static str> {
        small(self.field(GID))
    }

    pub(super) fn mtime(&self) -> Result<Timestamp, &'static str> {
        Ok(Timestamp {
            seconds: number(self.field(MTIME))?,
            nanoseconds: 0,
        })
    }

    /// Returns the major and the minor number of a device.
    ///
    /// # Errors
    /// If an inode cannot store them: 12 bits and 20 bits.
    pub(super) fn device(&self) -> Result<(u32, u32), &'static str> {
        let (major, minor) = (small(self.field(MAJOR))?, small(self.field(MINOR))?);
        if major > 0xfff || minor > 0xf_ffff {
            return Err("the number of the device is too large");
        }
        Ok((major, minor))
    }

    /// Returns the size and the first runs of a sparse file of GNU tar, and whether a block with more runs follows.
    pub(super) fn sparse(&self) -> Result<(u64, Vec<Run>, bool), &'static str> {
        let mut runs = Vec::new();
        add(self.field(RUNS), &mut runs)?;
        let real_bytes = size(self.field(REAL_SIZE))?;
        Ok((real_bytes, runs, self.0[HAS_MORE_RUNS] != 0))
    }

    fn field(&self, range: Range<usize>) -> &[u8] {
        self.0.get(range).unwrap_or_default()
    }
}

/// Appends the runs in `block`, which follows the header of a sparse file of GNU tar. Returns whether another such block
/// follows.
pub(super) fn add_runs(
    block: &[u8; BLOCK_BYTES],
    runs: &mut Vec<Run>,
) -> Result<bool, &'static str> {
    add(block.get(MORE_RUNS).unwrap_or_default(), runs)?;
    Ok(block[MORE_RUNS.end] != 0)
}

fn add(fields: &[u8], runs: &mut Vec<Run>) -> Result<(), &'static str> {
    for run in fields.chunks_exact(RUN_BYTES) {
        let (offset, len) = run.split_at(RUN_BYTES / 2);
        // The list ends with an empty field.
        if offset[0] == 0 || len[0] == 0 {
            break;
        }
        runs.push(Run {
            offset_bytes: size(offset)?,
            len_bytes: size(len)?,
        });
    }
    Ok(())
}

/// Returns the checksum of a header, in which its own field counts as blanks.
fn sum(block: &[u8; BLOCK_BYTES], number: impl Fn(u8) -> i64 + Copy) -> i64 {
    let of = |bytes: &[u8]| bytes.iter().copied().map(number).sum::<i64>();
    let (before, after) = (block.get(..CHECKSUM.start), block.get(CHECKSUM.end..));
    let blanks = CHECKSUM.map(|_| number(b' ')).sum::<i64>();
    of(before.unwrap_or_default()) + blanks + of(after.unwrap_or_default())
}

/// Returns the bytes of a field before the first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Returns the number in `field`. An empty field is 0.
fn number(field: &[u8]) -> Result<i64, &'static str> {
    const INVALID: &str = "a number in a header is invalid";
    if let Some((&first, rest)) = field.split_first()
        && first & 0x80 != 0
    {
        // Binary, with the sign in bit 6 of the first byte.
        let high = if first & 0x40 == 0 {
            i64::from(first & 0x3f)
        } else {
            i64::from(first.cast_signed())
        };
        return rest.iter().try_fold(high, |value, &byte| {
            let shifted = value.checked_mul(256).ok_or(INVALID)?;
            Ok(shifted | i64::from(byte))
        });
    }
    let is_blank = |byte: &u8| matches!(byte, b' ' | 0);
    let start = field.iter().position(|byte| !is_blank(byte));
    let digits = field
        .get(start.unwrap_or(field.len())..)
        .unwrap_or_default();
    let mut value = 0_i64;
    for &byte in digits.iter().take_while(|byte| !is_blank(byte)) {
        if !matches!(byte, b'0'..=b'7') {
            return Err(INVALID);
        }
        value = value.checked_mul(8).ok_or(INVALID)? | i64::from(byte - b'0');
    }
    Ok(value)
}

fn size(field: &[u8]) -> Result<u64, &'static str> {
    u64::try_from(number(field)?).map_err(|_| "a header has a negative size")
}

fn small(field: &[u8]) -> Result<u32, &'static str> {
    u32::try_from(number(field)?).map_err(|_| "a number of a header is too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        for (field, expected) in [
            (&b"0000644\0"[..], Ok(0o644)),
            (b"   644 \0", Ok(0o644)),
            (b"\0\0\0", Ok(0)),
            (b"\x80\0\0\0\0\0\x01\x02", Ok(258)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xfe", Ok(-2)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", Ok(-2)),
        ] {
            assert_eq!(number(field), expected, "{field:?}");
        }
        for field in [
            &b"0000648\0"[..],
            b"-1",
            b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert!(number(field).is_err(), "{field:?}");
        }
        assert!(size(b"\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
    }

    #[test]
    fn checksum_is_the_sum_of_unsigned_or_signed_bytes() {
        let mut block = [0; BLOCK_BYTES];
        block[0] = 0xff;
        let mut is_accepted = |checksum: i64| {
            block[CHECKSUM].copy_from_slice(format!("{checksum:07o}\0").as_bytes());
            Header::new(&block).is_some()
        };
        let blanks = 8 * 32;
        assert!(is_accepted(blanks + 255));
        assert!(is_accepted(blanks - 1));
        assert!(!is_accepted(blanks));
    }
}
