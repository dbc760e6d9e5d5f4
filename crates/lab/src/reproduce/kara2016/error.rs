//! Errors of a reproduction.

use crate::xattr_bench;
use std::io;

/// The reasons why a reproduction fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A measurement or simulation failed.
    #[error(transparent)]
    Bench(#[from] xattr_bench::Error),
    /// The kernel's ext4 cannot be mounted.
    #[error("{0}")]
    Mount(String),
    /// The executable file of this program cannot be read.
    #[error("cannot read the file of this program: {0}")]
    Program(io::Error),
    /// Text is not the JSON of a report on this letter.
    #[error("not the JSON of a report on kara2016 by this version: {0}")]
    Json(#[from] serde_json::Error),
    /// The measurements in the JSON of a report are not those of this program's tables.
    #[error("the measurements cannot be judged: {0}")]
    Measurements(String),
    /// Finished measurements cannot be kept.
    #[error("cannot keep finished measurements: {0}")]
    State(io::Error),
}
