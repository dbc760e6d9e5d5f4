//! Errors of writing a trace.

use parquet::errors::ParquetError;
use std::io;

/// An error that prevents a trace from being written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Parquet's writer failed.
    #[error("cannot write the trace: {0}")]
    Write(ParquetError),
}

impl From<ParquetError> for Error {
    /// Converts an error of Parquet's writer. If a system call failed, the result is the system's error.
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
