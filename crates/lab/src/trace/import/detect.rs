//! Detects files that do not have the format that the user specified, and detects their actual format.
//!
//! # Model
//! A file has the specified format if it contains at least one lookup in this format. This is known only
//! after the whole file was read. Two formats accept any input, so their files are examined before the import.
//! The actual format is detected from the beginning of the file: one format must match most of its lines.

use super::foreign::{DetectedFormat, Foreign};
use super::format::Format;
use super::oracle_general;
use super::read::read;
use super::skipped::Skipped;
use crate::trace::Error;
use std::io::{self, BufRead};

/// Number of bytes at the beginning of a file that are examined to detect its format.
const HEAD_BYTES: usize = 8 << 10;

/// Magic numbers of other formats.
const MAGIC: [(&[u8], DetectedFormat); 2] = [
    (b"\xfd7zXZ\0", DetectedFormat::Compressed("xz")),
    (b"PAR1\x15", DetectedFormat::Parquet),
];

/// Returns the beginning of the remaining data in `reader`.
pub(super) fn head(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    loop {
        match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            head => return head.map(|head| head[..head.len().min(HEAD_BYTES)].to_vec()),
        }
    }
}

/// Rejects a file with this `head` if it does not have `format`, for formats that accept any input.
pub(super) fn check(format: Format, head: &[u8]) -> Result<(), Foreign> {
    let is_text = !head.contains(&0);
    let is_other = match format {
        Format::OracleGeneral => is_text,
        Format::Keys => !is_text,
        _ => false,
    };
    if is_other || by_magic(head).is_some() {
        return Err(foreign(format, Skipped::default(), head));
    }
    Ok(())
}

/// Returns the format of a file with this `head`: the only one that matches, or keys if the file is text. `None`
/// if the file is compressed, or not text.
pub(super) fn format(head: &[u8]) -> Option<Format> {
    if by_magic(head).is_some() {
        return None;
    }
    let mut formats = Format::ALL.into_iter();
    let found = formats.find(|&format| matches(format, head));
    found.or_else(|| check(Format::Keys, head).is_ok().then_some(Format::Keys))
}

/// Returns the error of a file with this `head`, which does not have `format`.
pub(super) fn foreign(format: Format, skipped: Skipped, head: &[u8]) -> Foreign {
    let by_content = || {
        let mut formats = Format::ALL.into_iter();
        let found = formats.find(|&format| matches(format, head));
        found.map(DetectedFormat::Format)
    };
    Foreign {
        format,
        skipped,
        detected: by_magic(head).or_else(by_content),
    }
}

fn by_magic(head: &[u8]) -> Option<DetectedFormat> {
    let mut all = MAGIC.into_iter();
    all.find(|(magic, _)| head.starts_with(magic))
        .map(|(_, detected)| detected)
}

/// Returns whether a file with this `head` definitely has `format`.
fn matches(format: Format, head: &[u8]) -> bool {
    match format {
        // Any text could be keys.
        Format::Keys => false,
        Format::OracleGeneral => oracle_general::are_plausible(head),
        _ => is_mostly(format, head),
    }
}

/// Returns whether `head` contains lookups, and more than half of its lines have `format`.
fn is_mostly(format: Format, head: &[u8]) -> bool {
    let mut is_empty = true;
    let skipped = read(format, None, head, &mut |_| {
        is_empty = false;
        Ok::<_, Error>(())
    });
    let lines = head.split(|&byte| byte == b'\n').count() as u64;
    let foreign = |skipped: Skipped| skipped.foreign().map_or(0, |foreign| foreign.count);
    !is_empty && skipped.is_ok_and(|skipped| foreign(skipped) * 2 < lines)
}
