//! Errors of reading traces for a comparison of policies.

use crate::trace;
use std::path::PathBuf;

/// The reasons why policies cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Trace {
        /// The path of the trace.
        path: PathBuf,
        /// The cause.
        source: trace::Error,
    },
    /// The format of the file is not known.
    #[error("cannot read {}: no format matches its content", .0.display())]
    UnknownFormat(PathBuf),
    /// The trace has no lookups in the requested caches.
    #[error("{} has no lookups in {caches}", path.display())]
    NoLookups {
        /// The path of the trace.
        path: PathBuf,
        /// The names of the caches.
        caches: String,
    },
    /// The trace has more accesses or objects than are held in memory.
    #[error(
        "{} has more than {steps} accesses or more than {objects} objects, the largest numbers that are compared",
        path.display()
    )]
    TooLarge {
        /// The path of the trace.
        path: PathBuf,
        /// The largest number of accesses and removals.
        steps: usize,
        /// The largest number of objects.
        objects: usize,
    },
}
