//! The lines that an import skipped, and the reasons.

use super::lines::Line;
use crate::output::counted;
use std::collections::BTreeMap;
use std::fmt;

/// The reason for skipping a line that does not have the specified format.
pub(super) const FOREIGN: &str = "a line that is not in the given format";

/// Maximum number of bytes of a line that a message shows.
const SHOWN_BYTES: usize = 60;

/// The lines that an import skipped: for each reason, the number of lines and the first line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<&'static str, SkippedLines>);

/// The lines skipped for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedLines {
    pub count: u64,
    /// The number of the first line, or of the first record in a format without lines.
    pub first_number: u64,
    /// The beginning of the first line, with unprintable characters escaped; empty if the format is not text.
    pub first_text: String,
}

impl Skipped {
    /// Counts a skipped line.
    pub(super) fn line(&mut self, reason: &'static str, line: Line<'_>) {
        self.add(reason, line.number, line.text);
    }

    /// Counts a skipped line or record with its number and its beginning.
    pub(super) fn add(&mut self, reason: &'static str, number: u64, text: &[u8]) {
        let lines = self.0.entry(reason).or_insert_with(|| SkippedLines {
            count: 0,
            first_number: number,
            first_text: shown(text),
        });
        lines.count += 1;
    }

    /// Returns the total number of skipped lines.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().map(|lines| lines.count).sum()
    }

    /// Returns the lines that do not have the specified format, if any.
    #[must_use]
    pub fn foreign(&self) -> Option<&SkippedLines> {
        self.0.get(FOREIGN)
    }

    /// Returns each reason, with the lines skipped for it.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, &SkippedLines)> {
        self.0.iter().map(|(&reason, lines)| (reason, lines))
    }
}

impl fmt::Display for SkippedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = counted(self.count, "time", "times");
        write!(f, "{times}, first at number {}", self.first_number)?;
        if !self.first_text.is_empty() {
            write!(f, ": {}", self.first_text)?;
        }
        Ok(())
    }
}

fn shown(text: &[u8]) -> String {
    let mut shown = text[..text.len().min(SHOWN_BYTES)]
        .escape_ascii()
        .to_string();
    if text.len() > SHOWN_BYTES {
        shown.push_str("...");
    }
    shown
}
