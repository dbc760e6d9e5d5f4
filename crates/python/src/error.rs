//! Errors as Python raises them: `OSError`, with the errno and the names of the files.

use larder::{Errno, Error};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::io;

/// The errnos that need no further explanation. The text of the exception is then that of
/// strerror(3).
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
    let text = match inner(error) {
        // If the copy of a tree fails, the error names the file that could not be copied.
        Some(error @ Error::At { .. }) => error.to_string(),
        Some(error) if !PLAIN.contains(&errno) && !matches!(error, Error::Errno(_)) => {
            error.to_string()
        }
        _ => strerror(errno),
    };
    (errno, text)
}

/// Returns the errno of `error`.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    inner(error)
        .map(Error::errno)
        .or_else(|| Errno::from_io_error(error))
        .unwrap_or(Errno::IO)
}

fn inner(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// Returns the text of strerror(3). The standard library appends the number of the errno to the
/// text, which is removed here.
fn strerror(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}
