//! What a run comes to, whatever it measures.

use serde::Serialize;

/// Measurements, and what kept others from being made.
#[derive(Debug, Serialize)]
pub struct Outcome<S> {
    /// Every single measurement, in order.
    pub samples: Vec<S>,
    /// What was not measured, and why.
    pub skipped: Vec<String>,
    /// What went wrong.
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
