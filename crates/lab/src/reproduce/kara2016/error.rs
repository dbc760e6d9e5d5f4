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
    /// Finished measurements cannot be kept.
    #[error("cannot keep finished measurements: {0}")]
    State(io::Error),
}
