//! The error of a file that does not have the format that the user specified.

use super::format::Format;
use super::skipped::{Skipped, SkippedLines};
use std::fmt;

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

impl Foreign {
    /// Returns the skipped line that the error message shows, with the reason for skipping it.
    fn line(&self) -> Option<(&'static str, &SkippedLines)> {
        let foreign = self
            .skipped
            .foreign()
            .map(|line| ("not in the given format", line));
        foreign.or_else(|| self.skipped.reasons().next())
    }
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
