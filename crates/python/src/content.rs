//! The content of a file as `bytes`.

use crate::error;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;

/// The reason why content was not read.
pub(crate) enum Failed {
    Read(io::Error),
    Memory(PyErr),
}

impl Failed {
    /// Returns the exception for the file `name`.
    pub(crate) fn into_exception(self, name: &Bound<'_, PyAny>) -> PyErr {
        match self {
            Self::Read(error) => error::of_file(&error, name),
            Self::Memory(error) => error,
        }
    }
}

/// Returns the bytes that `read` writes to a buffer of `len_bytes`. `read` is called without the GIL.
pub(crate) fn content(
    py: Python<'_>,
    len_bytes: u64,
    read: impl FnOnce(&mut [u8]) -> io::Result<usize> + Send,
) -> Result<Bound<'_, PyBytes>, Failed> {
    // CPython aborts if the length is negative.
    let len = isize::try_from(len_bytes).map(isize::unsigned_abs);
    let len = len.map_err(|_| Failed::Memory(PyMemoryError::new_err(())))?;
    let mut done = Ok(0);
    let bytes = PyBytes::new_with(py, len, |buf| {
        done = py.detach(|| read(buf));
        Ok(())
    });
    let (bytes, read) = (bytes.map_err(Failed::Memory)?, done.map_err(Failed::Read)?);
    if read == len {
        return Ok(bytes);
    }
    let content = bytes.as_bytes().get(..read).unwrap_or_default();
    Ok(PyBytes::new(py, content))
}
