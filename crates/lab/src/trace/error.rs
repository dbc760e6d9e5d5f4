//! What keeps a trace from being written or read.

use super::import::Foreign;
use larder_trace::info::VERSION;
use parquet::basic::Type;
use std::fmt::Display;
use std::io;

/// A trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is no Parquet.
    #[error("not a trace: it does not start as a Parquet file does")]
    NotParquet,
    /// The file is Parquet, but has not the columns of a trace.
    #[error("not a trace: there is no column `{name}` of type {physical}")]
    Column {
        /// The column that is missing.
        name: &'static str,
        /// Its type.
        physical: Type,
    },
    /// The file has the columns of a trace, but does not say that it is one.
    #[error(
        "it has the columns of a trace, but not the key larder.trace.version, which says what they mean"
    )]
    NoVersion,
    /// Another tool has compressed it in a way that is not read.
    #[error(
        "the trace was rewritten by another program, and compressed by {0}, which is not read here"
    )]
    Codec(String),
    /// A trace of another schema.
    #[error(
        "a trace of version {0}, of which this program knows nothing: it reads version {VERSION}"
    )]
    Version(String),
    /// The footer is missing: it is still being recorded, the writer was killed, or the file was cut.
    #[error("the trace is cut short, or still being recorded: its footer is missing")]
    CutShort,
    /// The trace is cut short before the end of the first row group.
    #[error(
        "there is no whole row group to read: the trace is cut short, or its recording began seconds ago"
    )]
    NothingWhole,
    /// What the trace says of itself cannot be true.
    #[error("the trace is damaged: {0}")]
    Damaged(String),
    /// A row group has other bytes than were written, or they do not make sense.
    #[error("row group {row_group} of the trace is damaged: {reason}")]
    RowGroup {
        /// Which one, from 0.
        row_group: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// What was to be imported has no lookup in the format that it was said to have.
    #[error(transparent)]
    Foreign(#[from] Foreign),
    /// The trace cannot be written.
    #[error(transparent)]
    Write(larder_trace::Error),
}

impl From<larder_trace::Error> for Error {
    /// What the system refused is the same error, whether it was reading or writing.
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
