//! Detects files that do not have the format that the user specified, and which format they have.
//!
//! # Model
//! A file has the specified format if it contains at least one lookup in this format. This is known only
//! after the whole file was read. Two formats accept any input, so their files are examined before. The
//! actual format is detected from the beginning of the file: one format must match most of its lines.

use super::format::Format;
use super::skipped::{Skipped, SkippedLines};
use super::{oracle_general, read};
use crate::trace::Error;
use std::fmt;
use std::io::{self, BufRead};

/// Number of bytes at the beginning of a file that are examined to detect its format.
const HEAD_BYTES: usize = 8 << 10;

/// Magic numbers of other formats.
const MAGIC: [(&[u8], DetectedFormat); 4] = [
    (b"\x28\xb5\x2f\xfd", DetectedFormat::Compressed("zstd")),
    (b"\x1f\x8b\x08", DetectedFormat::Compressed("gzip")),
    (b"\xfd7zXZ\0", DetectedFormat::Compressed("xz")),
    (b"PAR1\x15", DetectedFormat::Parquet),
];

/// A file without lookups in the given format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The format that the user specified.
    pub format: Format,
    /// The lines that were skipped.
    pub skipped: Skipped,
    /// The detected format, if it is unambiguous.
    pub detected: Option<DetectedFormat>,
}

/// The detected format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetectedFormat {
    /// A format that can be imported.
    Format(Format),
    /// Compressed output of this program, which decompresses it with `-dc`.
    Compressed(&'static str),
    /// Parquet, the format of traces.
    Parquet,
}

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
        return Err(Foreign::new(format, Skipped::default(), head));
    }
    Ok(())
}

impl Foreign {
    pub(super) fn new(format: Format, skipped: Skipped, head: &[u8]) -> Self {
        let formats = Format::ALL.into_iter();
        let by_content = || {
            formats
                .map(DetectedFormat::Format)
                .find(|detected| detected.matches(head))
        };
        Self {
            format,
            skipped,
            detected: by_magic(head).or_else(by_content),
        }
    }

    /// Returns the skipped line that the error message shows, with the reason for skipping it.
    fn line(&self) -> Option<(&'static str, &SkippedLines)> {
        let foreign = self
            .skipped
            .foreign()
            .map(|line| ("not in the given format", line));
        foreign.or_else(|| self.skipped.reasons().next())
    }
}

fn by_magic(head: &[u8]) -> Option<DetectedFormat> {
    let mut all = MAGIC.into_iter();
    all.find(|(magic, _)| head.starts_with(magic))
        .map(|(_, detected)| detected)
}

impl DetectedFormat {
    /// Returns whether a file with this `head` definitely has this format.
    fn matches(self, head: &[u8]) -> bool {
        let Self::Format(format) = self else {
            return false;
        };
        match format {
            // Any text could be keys.
            Format::Keys => false,
            Format::OracleGeneral => oracle_general::are_plausible(head),
            _ => is_mostly(format, head),
        }
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

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line() {
            Some((
                reason,
                SkippedLines {
                    first_number,
                    first_text,
                    ..
                },
            )) => write!(
                f,
                "the file contains no lookups; line {first_number}, `{first_text}`: {reason}"
            )?,
            None => f.write_str("the file contains no lookups")?,
        }
        write!(
            f,
            "; the format {} has {}",
            self.format,
            self.format.about()
        )
    }
}

impl std::error::Error for Foreign {}
