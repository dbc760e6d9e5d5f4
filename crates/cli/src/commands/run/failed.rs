//! Messages of failures.

use larder_console::{Failure, Result};
use std::fmt::Display;

/// Adds to an error what has failed.
pub(super) trait Failed<T> {
    fn failed(self, what: impl Display) -> Result<T>;
}

impl<T, E: Display> Failed<T> for Result<T, E> {
    fn failed(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Failure::new(format!("{what}: {error}")))
    }
}
