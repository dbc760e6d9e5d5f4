//! What keeps a trace from being written.

use parquet::errors::ParquetError;
use std::io;

/// A trace cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Parquet's writer refused.
    #[error("cannot write the trace: {0}")]
    Write(ParquetError),
}

impl From<ParquetError> for Error {
    /// Keeps the system's own message where a system call failed.
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(refused) => Self::Io(*refused),
                Err(source) => Self::Write(ParquetError::External(source)),
            },
            other => Self::Write(other),
        }
    }
}
