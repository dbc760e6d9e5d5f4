//! Errors of writing and reading traces.

use super::import::Foreign;
use larder_trace::info::{VERSION, VERSION_WITH_NUMBERS};
use parquet::basic::Type;
use std::fmt::Display;
use std::io;

/// A trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An input/output error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is not Parquet.
    #[error("not a trace: the file does not begin like a Parquet file")]
    NotParquet,
    /// The file is Parquet, but does not have the columns of a trace.
    #[error("not a trace: column `{name}` of type {physical} is missing")]
    Column {
        /// The missing column.
        name: &'static str,
        /// The type of the column.
        physical: Type,
    },
    /// The file has the columns of a trace, but not the metadata key of one.
    #[error(
        "the file has the columns of a trace, but not the key larder.trace.version, which defines them"
    )]
    NoVersion,
    /// Another tool compressed the trace with an unsupported codec.
    #[error(
        "the trace was rewritten by another program and compressed with {0}, which is not supported"
    )]
    Codec(String),
    /// A trace with an unsupported schema version.
    #[error(
        "unsupported version {0} of the trace; supported: {VERSION_WITH_NUMBERS} and {VERSION}"
    )]
    Version(String),
    /// The footer is missing: the writer was killed, or the file was truncated.
    #[error("the trace is cut short: its footer is missing")]
    CutShort,
    /// The trace is cut short before the end of the first row group.
    #[error("the trace is cut short before the end of its first row group")]
    NothingWhole,
    /// The trace is still being recorded, and has no events yet.
    #[error("the trace is still being recorded, and has no complete row group yet")]
    NothingYet,
    /// The trace's metadata is inconsistent.
    #[error("the trace is damaged: {0}")]
    Damaged(String),
    /// A row group differs from what was written, or cannot be decoded.
    #[error("row group {row_group} of the trace is damaged: {reason}")]
    RowGroup {
        /// Number of the row group, from 0.
        row_group: usize,
        /// The cause.
        reason: String,
    },
    /// The imported file has no lookup in the given format.
    #[error(transparent)]
    Foreign(#[from] Foreign),
    /// The trace cannot be written.
    #[error(transparent)]
    Write(larder_trace::Error),
}

impl From<larder_trace::Error> for Error {
    /// Converts an error of writing. An input/output error becomes [`Self::Io`], as in reading.
    fn from(error: larder_trace::Error) -> Self {
        match error {
            larder_trace::Error::Io(refused) => Self::Io(refused),
            other => Self::Write(other),
        }
    }
}

impl Error {
    pub(super) fn damaged(reason: impl Display) -> Self {
        Self::Damaged(reason.to_string())
    }
}
