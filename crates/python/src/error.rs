//! Errors as Python raises them: `OSError`, with the errno and the names of the files.

use larder::{Errno, Error};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::io::{self, ErrorKind};

/// The errnos that say everything, so that the text is that of strerror(3).
const PLAIN: [Errno; 13] = [
    Errno::NOENT,
    Errno::EXIST,
    Errno::NOTDIR,
    Errno::ISDIR,
    Errno::NOTEMPTY,
    Errno::LOOP,
    Errno::NAMETOOLONG,
    Errno::NOSPC,
    Errno::XDEV,
    Errno::MLINK,
    Errno::FBIG,
    Errno::NODATA,
    Errno::BADF,
];

/// Returns the exception for `error` of the file `name`.
pub(crate) fn of_file(error: &io::Error, name: &Bound<'_, PyAny>) -> PyErr {
    let (errno, text) = described(error);
    PyOSError::new_err((errno.raw_os_error(), text, name.clone().unbind()))
}

/// Returns the exception for `error` of an operation on the files `first` and `second`.
pub(crate) fn of_files(
    error: &io::Error,
    first: &Bound<'_, PyAny>,
    second: &Bound<'_, PyAny>,
) -> PyErr {
    let (errno, text) = described(error);
    let none = first.py().None();
    let (first, second) = (first.clone().unbind(), second.clone().unbind());
    // The fourth argument is the error number of Windows.
    PyOSError::new_err((errno.raw_os_error(), text, first, none, second))
}

/// Returns the exception for an operation on the image `image` that fails with `errno`.
pub(crate) fn of_image(errno: Errno, text: String, image: &str) -> PyErr {
    PyOSError::new_err((errno.raw_os_error(), text, image.to_owned()))
}

fn described(error: &io::Error) -> (Errno, String) {
    let errno = errno_of(error);
    let text = if PLAIN.contains(&errno) || error.raw_os_error().is_some() {
        strerror(errno)
    } else {
        error.to_string()
    };
    (errno, text)
}

/// Returns the errno of `error`.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(error) = inner {
        return Error::errno(error);
    }
    Errno::from_io_error(error).unwrap_or(match error.kind() {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::NotADirectory => Errno::NOTDIR,
        ErrorKind::IsADirectory => Errno::ISDIR,
        ErrorKind::DirectoryNotEmpty => Errno::NOTEMPTY,
        ErrorKind::ReadOnlyFilesystem => Errno::ROFS,
        ErrorKind::StorageFull => Errno::NOSPC,
        ErrorKind::InvalidInput => Errno::INVAL,
        ErrorKind::OutOfMemory => Errno::NOMEM,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        _ => Errno::IO,
    })
}

/// Returns the text of strerror(3), which the standard library follows by the number.
fn strerror(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}
