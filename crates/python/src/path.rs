//! Paths as Python programs pass them: `str`, `bytes` or `os.PathLike`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Returns the path `object`.
///
/// # Errors
/// `TypeError` if it is not a path, `ValueError` if it contains a NUL byte.
pub(crate) fn to_path(object: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let path: PathBuf = match object.cast::<PyBytes>() {
        Ok(bytes) => OsStr::from_bytes(bytes.as_bytes()).into(),
        Err(_) => object.extract()?,
    };
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(PyValueError::new_err("embedded null byte"));
    }
    Ok(path)
}
