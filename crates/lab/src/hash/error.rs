//! Errors of replaying a trace.

use super::combination::Combination;
use crate::trace;
use larder_cache::tape::CacheKind;
use std::io;
use std::path::PathBuf;

/// The reasons why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be read.
    #[error("{}: {source}", path.display())]
    Trace {
        /// The path of the trace.
        path: PathBuf,
        /// The cause.
        source: trace::Error,
    },
    /// A table cannot be allocated.
    #[error("cannot allocate the table of {combination} for {objects} objects: {source}")]
    Memory {
        /// The table.
        combination: Combination,
        /// The number of objects for which the table needs room.
        objects: u64,
        /// The cause.
        source: io::Error,
    },
    /// The trace has no lookups in a cache that is to be replayed.
    #[error("the trace has no lookups of the {} cache", .0.as_str())]
    NoLookups(CacheKind),
    /// The trace has no lookups.
    #[error("the trace has no lookups")]
    Empty,
}
