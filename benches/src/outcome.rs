//! The result of a run, for any kind of measurement.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// The measurements of a run, and the reasons why some are missing.
#[derive(Debug, Serialize, Deserialize)]
pub struct Outcome<S> {
    /// Every measurement, in order.
    pub samples: Vec<S>,
    /// What was not measured, with the reasons.
    pub skipped: Vec<String>,
    /// The failures.
    pub failures: Vec<String>,
}

impl<S> Default for Outcome<S> {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            skipped: Vec::new(),
            failures: Vec::new(),
        }
    }
}

/// Returns the lines of a report on what was not measured, with the reasons.
pub(crate) fn absent(skipped: &[String], failures: &[String]) -> String {
    let mut text = String::new();
    for (what, lines) in [("skipped", skipped), ("failed", failures)] {
        for line in lines {
            let _ = writeln!(text, "\n{what}: {line}");
        }
    }
    text
}
