//! The result of a run, for any kind of measurement.

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
