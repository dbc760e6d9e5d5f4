//! The open image of a `larder.Fs`.

use crate::error;
use crate::opening::Opening;
use crate::path::to_path;
use crate::process::Local;
use crate::status::stat_result;
use larder::{Errno, Fs, Metadata};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::io;
use std::path::Path;

/// The permission bits that new files do not get.
const UMASK: u16 = 0o022;

/// The base of `larder.Fs`.
#[pyclass(module = "larder._larder", subclass, frozen)]
#[derive(Debug)]
pub(crate) struct BaseFs {
    pub(crate) opening: Opening,
    /// The open image. `None` when it is closed.
    pub(crate) state: Mutex<Option<Local<Fs>>>,
}

impl Drop for BaseFs {
    /// Writes all changes of an image that was not closed, without the GIL. Reports an error as Python reports an
    /// exception in a destructor, with the name of the image.
    fn drop(&mut self) {
        let Some(fs) = self.state.get_mut().take().and_then(Local::into_value) else {
            return;
        };
        Python::attach(|py| {
            if let Err(error) = py.detach(move || fs.close()) {
                // The image can be dropped while an exception is raised.
                let raised = PyErr::take(py);
                let image = PyString::new(py, &self.opening.label());
                self.failed(&error)
                    .write_unraisable(py, Some(image.as_any()));
                if let Some(raised) = raised {
                    raised.restore(py);
                }
            }
        });
    }
}

impl BaseFs {
    /// Returns the attributes of the file at `path`, like `os.stat`.
    pub(crate) fn status<'py>(
        &self,
        path: &Bound<'py, PyAny>,
        follow_symlinks: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (metadata, block_bytes) = self.run(path, |fs, path| {
            let metadata = if follow_symlinks {
                fs.metadata(path)
            } else {
                fs.symlink_metadata(path)
            };
            Ok((metadata?, fs.volume().block_size_bytes()))
        })?;
        stat_result(path.py(), &metadata, block_bytes)
    }

    /// Returns the open image. In a child after fork(2), opens the image again if it is open for reading.
    ///
    /// # Errors
    /// `ValueError` if the image is closed, `OSError` if it cannot be opened again.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Fs> {
        let closed = || PyValueError::new_err("I/O operation on closed image");
        let current = self.state.lock().as_ref().map(|fs| fs.get().cloned());
        match current {
            None => return Err(closed()),
            Some(Some(fs)) => return Ok(fs),
            Some(None) => {}
        }
        if self.opening.is_read_write() {
            let text = "the parent process has it open for writing, so this process cannot use it";
            let image = self.opening.label();
            return Err(error::of_image(Errno::BUSY, text.to_owned(), &image));
        }
        let fs = open(py, &self.opening)?;
        match &mut *self.state.lock() {
            None => Err(closed()),
            Some(state) => {
                // Another thread may have opened it meanwhile.
                if state.get().is_none() {
                    *state = Local::new(fs.clone());
                }
                Ok(fs)
            }
        }
    }

    /// Runs `operation` on the file at `path`, without the GIL.
    pub(crate) fn run<T: Send>(
        &self,
        path: &Bound<'_, PyAny>,
        operation: impl FnOnce(&Fs, &Path) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        let fs = self.get(path.py())?;
        let name = to_path(path)?;
        let done = path.py().detach(|| operation(&fs, &name));
        done.map_err(|error| error::of_file(&error, path))
    }

    /// Runs `operation` on two files, without the GIL.
    pub(crate) fn run_two<T: Send>(
        &self,
        first: &Bound<'_, PyAny>,
        second: &Bound<'_, PyAny>,
        operation: impl FnOnce(&Fs, &Path, &Path) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        let fs = self.get(first.py())?;
        let (one, two) = (to_path(first)?, to_path(second)?);
        let done = first.py().detach(|| operation(&fs, &one, &two));
        done.map_err(|error| error::of_files(&error, first, second))
    }

    /// Returns the attributes of the file at `path`, or `None` if it does not exist.
    pub(crate) fn found(
        &self,
        path: &Bound<'_, PyAny>,
        follow_symlinks: bool,
    ) -> PyResult<Option<Metadata>> {
        self.run(path, |fs, path| {
            let found = if follow_symlinks {
                fs.metadata(path)
            } else {
                fs.symlink_metadata(path)
            };
            match found {
                Ok(metadata) => Ok(Some(metadata)),
                Err(error) => match error::errno_of(&error) {
                    Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => Ok(None),
                    _ => Err(error),
                },
            }
        })
    }

    /// Returns the exception for `error` of the image.
    pub(crate) fn failed(&self, error: &io::Error) -> PyErr {
        let text = error.to_string();
        error::of_image(error::errno_of(error), text, &self.opening.label())
    }
}

pub(crate) fn open(py: Python<'_>, opening: &Opening) -> PyResult<Fs> {
    Ok(opening.open(py)?.with_umask(UMASK))
}
