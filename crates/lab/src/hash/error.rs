//! What keeps a trace from being replayed.

use super::sweep::Combination;
use crate::trace;
use larder_cache::tape::CacheKind;
use std::io;
use std::path::PathBuf;

/// A trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be read.
    #[error("{}: {source}", path.display())]
    Trace {
        /// The trace.
        path: PathBuf,
        /// Why.
        source: trace::Error,
    },
    /// No table can be made.
    #[error("no memory for the table of {combination} with {objects} objects: {source}")]
    Memory {
        /// Whose table.
        combination: Combination,
        /// How many objects it must hold.
        objects: u64,
        /// Why.
        source: io::Error,
    },
    /// The trace says nothing of a cache that is to be replayed.
    #[error("the trace has no lookups of the {} cache", .0.as_str())]
    NoLookups(CacheKind),
    /// The trace has no lookups at all.
    #[error("the trace has no lookups")]
    Empty,
}
