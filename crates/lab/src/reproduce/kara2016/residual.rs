//! What a fit leaves unexplained.

use serde::Serialize;

/// The times of a number of processes and files with `off`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Residual {
    pub processes: u32,
    pub files: u32,
    /// The median of the published times for all numbers of values, in seconds.
    pub published_s: f64,
    pub simulated_s: f64,
}

impl Residual {
    /// Returns simulated / published.
    pub fn ratio(&self) -> f64 {
        self.simulated_s / self.published_s
    }
}
