//! Files that are not of the format that they are said to be.
//!
//! # Model
//! Whether a file is of a format shows when it is read: if no lookup is in it, it is not. Two formats
//! take whatever comes, so their files are looked at first. What else a file is shows in
//! its beginning, if one of the formats makes sense of most of that.

use super::format::Format;
use super::skipped::{Skipped, SkippedLines};
use super::{oracle_general, read};
use crate::trace::Error;
use std::fmt;
use std::io::{self, BufRead};

/// How much of a file is looked at to tell what it is.
const HEAD_BYTES: usize = 8 << 10;

/// How files of other formats begin.
const MAGIC: [(&[u8], Looks); 4] = [
    (b"\x28\xb5\x2f\xfd", Looks::Compressed("zstd")),
    (b"\x1f\x8b\x08", Looks::Compressed("gzip")),
    (b"\xfd7zXZ\0", Looks::Compressed("xz")),
    (b"PAR1\x15", Looks::Parquet),
];

/// A file without lookups in the format that it was said to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// What it was said to be.
    pub format: Format,
    /// What was read of it.
    pub skipped: Skipped,
    /// What it looks like, if that is plain.
    pub looks: Option<Looks>,
}

/// What a file looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// One that can be imported.
    Format(Format),
    /// The output of this program, which undoes it with `-dc`.
    Compressed(&'static str),
    /// Parquet, as traces are.
    Parquet,
}

/// The beginning of what is left in `reader`.
pub(super) fn head(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    loop {
        match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            head => return head.map(|head| head[..head.len().min(HEAD_BYTES)].to_vec()),
        }
    }
}

/// Refuses a file with this `head` where it cannot be of `format`, and reading it would not tell.
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
        let by_content = || formats.map(Looks::Format).find(|looks| looks.fits(head));
        Self {
            format,
            skipped,
            looks: by_magic(head).or_else(by_content),
        }
    }

    /// The line that shows it best, and the reason for which it was skipped.
    fn line(&self) -> Option<(&'static str, &SkippedLines)> {
        let foreign = self
            .skipped
            .foreign()
            .map(|line| ("not of that format", line));
        foreign.or_else(|| self.skipped.reasons().next())
    }
}

fn by_magic(head: &[u8]) -> Option<Looks> {
    let mut all = MAGIC.into_iter();
    all.find(|(magic, _)| head.starts_with(magic))
        .map(|(_, looks)| looks)
}

impl Looks {
    /// Whether a file with this `head` is so, beyond doubt.
    fn fits(self, head: &[u8]) -> bool {
        let Self::Format(format) = self else {
            return false;
        };
        match format {
            // Anything could be keys.
            Format::Keys => false,
            Format::OracleGeneral => oracle_general::are_plausible(head),
            _ => makes_sense(format, head),
        }
    }
}

/// Whether there are lookups in `head`, and more than half of its lines are of `format`.
fn makes_sense(format: Format, head: &[u8]) -> bool {
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
                "no line tells of a lookup; line {first_number}, `{first_text}`: {reason}"
            )?,
            None => f.write_str("there are no lookups in it")?,
        }
        write!(f, "; {} is {}", self.format, self.format.about())
    }
}

impl std::error::Error for Foreign {}
