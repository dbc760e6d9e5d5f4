//! Paths as Python programs pass them: `str`, `bytes` or `os.PathLike`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Returns the path `object`.
///
/// # Errors
/// `TypeError` if it is not a path, `ValueError` if it contains a NUL byte.
pub(crate) fn to_path(object: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let object = fspath(object)?;
    let path: PathBuf = match object.cast::<PyBytes>() {
        Ok(bytes) => OsStr::from_bytes(bytes.as_bytes()).into(),
        Err(_) => object.extract()?,
    };
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(PyValueError::new_err("embedded null byte"));
    }
    Ok(path)
}

/// Returns a path as `str` or `bytes`, like `os.fspath`.
fn fspath<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() {
        return Ok(object.clone());
    }
    let os = object.py().import("os")?;
    os.call_method1("fspath", (object,))
}

/// The type of the names that an operation returns: that of the path which the program passed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NameType {
    Str,
    Bytes,
}

impl NameType {
    /// # Errors
    /// `TypeError` if `path` is not a path.
    pub(crate) fn of(path: &Bound<'_, PyAny>) -> PyResult<Self> {
        let is_bytes = fspath(path)?.is_instance_of::<PyBytes>();
        Ok(if is_bytes { Self::Bytes } else { Self::Str })
    }

    /// Returns `name` as an object of this type.
    pub(crate) fn object(
        self,
        py: Python<'_>,
        name: impl AsRef<OsStr>,
    ) -> PyResult<Bound<'_, PyAny>> {
        let name = name.as_ref();
        Ok(match self {
            Self::Str => name.into_pyobject(py)?.into_any(),
            Self::Bytes => PyBytes::new(py, name.as_bytes()).into_any(),
        })
    }
}
