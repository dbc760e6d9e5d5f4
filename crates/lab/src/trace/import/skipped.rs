//! What an import left out, and why.

use super::lines::Line;
use std::collections::BTreeMap;
use std::fmt;

/// The reason of what is not of the format at all.
pub(super) const FOREIGN: &str = "not a line of the format";

/// How much of a line is shown.
const SHOWN_BYTES: usize = 60;

/// Lines that gave no event: how many, for each reason, and the first of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<&'static str, SkippedLines>);

/// The lines skipped for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedLines {
    pub count: u64,
    /// The number of the first: of a line, or of a record where a format has no lines.
    pub first_number: u64,
    /// The beginning of the first, with what cannot be printed escaped; empty where it is not text.
    pub first_text: String,
}

impl Skipped {
    /// Takes note of one more line.
    pub(super) fn line(&mut self, reason: &'static str, line: Line<'_>) {
        self.add(reason, line.number, line.text);
    }

    /// Takes note of one more thing skipped, with its number, and how it begins.
    pub(super) fn add(&mut self, reason: &'static str, number: u64, text: &[u8]) {
        let lines = self.0.entry(reason).or_insert_with(|| SkippedLines {
            count: 0,
            first_number: number,
            first_text: shown(text),
        });
        lines.count += 1;
    }

    /// How many were skipped altogether.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().map(|lines| lines.count).sum()
    }

    /// The lines that are not of the format at all, if there are any.
    #[must_use]
    pub fn foreign(&self) -> Option<&SkippedLines> {
        self.0.get(FOREIGN)
    }

    /// Each reason, and the lines skipped for it.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, &SkippedLines)> {
        self.0.iter().map(|(&reason, lines)| (reason, lines))
    }
}

impl fmt::Display for SkippedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, first number {}", self.count, self.first_number)?;
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
