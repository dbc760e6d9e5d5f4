//! Open files: the part of `larder.File` that needs Rust.

use crate::buffer::{Source, Target};
use crate::content::content;
use crate::error;
use crate::image::BaseFs;
use crate::process::Local;
use larder::{Errno, File, FileOptions};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An open file.
#[pyclass(module = "larder._larder", frozen)]
#[derive(Debug)]
pub(crate) struct BaseFile {
    path: Py<PyAny>,
    /// The open file. `None` when it is closed. Dropped before `fs`, which closes the image.
    state: Mutex<Option<Local<Arc<File>>>>,
    fs: Py<BaseFs>,
    /// A copy of the position in the open file, in bytes. A child after fork(2) cannot use the position in the open
    /// file, because its lock may be held.
    position_bytes: AtomicU64,
}

#[pymethods]
impl BaseFile {
    /// Opens the file at `path` of `fs`. `mode` has the letters of the builtin `open`, except `b` and `t`.
    #[new]
    fn new(fs: Py<BaseFs>, path: &Bound<'_, PyAny>, mode: &str) -> PyResult<Self> {
        let updates = mode.contains('+');
        let new = FileOptions::new().write(true);
        let options = match mode.trim_end_matches('+') {
            "r" => FileOptions::new().read(true).write(updates),
            "w" => new.read(updates).create(true).truncate(true),
            "a" => new.read(updates).create(true).append(true),
            "x" => new.read(updates).create_new(true),
            _ => return Err(PyValueError::new_err(format!("invalid mode: '{mode}'"))),
        };
        let appends = mode.starts_with('a');
        let (file, position_bytes) = fs.get().run(path, |fs, path| {
            let file = fs.open_with(path, options)?;
            let start = if appends {
                SeekFrom::End(0)
            } else {
                SeekFrom::Start(0)
            };
            let position_bytes = (&file).seek(start)?;
            Ok((file, position_bytes))
        })?;
        Ok(Self {
            fs,
            path: path.clone().unbind(),
            state: Mutex::new(Some(Local::new(Arc::new(file)))),
            position_bytes: AtomicU64::new(position_bytes),
        })
    }

    /// Reads into `buffer`. Returns the number of bytes, which is less than the size of `buffer` only at the end.
    fn readinto(&self, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut target = Target::new(buffer)?;
        self.run(buffer.py(), |mut file| file.read(target.bytes_mut()))
    }

    /// Returns the next `size` bytes, or all that follow if `size` is negative.
    fn read<'py>(&self, py: Python<'py>, size: i64) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.get(py)?;
        let left_bytes = py.detach(|| left_bytes(&file));
        let left_bytes = left_bytes.map_err(|error| self.failed(py, &error))?;
        let len_bytes = u64::try_from(size).map_or(left_bytes, |size| size.min(left_bytes));
        let content = content(py, len_bytes, |buf| {
            let read = (&*file).read(buf);
            self.note_position(&file);
            read
        });
        content.map_err(|failed| failed.into_exception(self.path.bind(py)))
    }

    /// Writes the content of `buffer`. Returns the number of bytes, which can be less than its size.
    fn write(&self, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let source = Source::new(buffer)?;
        self.run(buffer.py(), |mut file| file.write(source.bytes()))
    }

    /// Moves the position to `offset` from the start (0), the position (1) or the end (2). Returns the position.
    fn seek(&self, py: Python<'_>, offset: i64, whence: u8) -> PyResult<u64> {
        let to = match whence {
            0 => match u64::try_from(offset) {
                Ok(offset) => SeekFrom::Start(offset),
                Err(_) => return Err(self.failed(py, &Errno::INVAL.into())),
            },
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            _ => return Err(PyValueError::new_err(format!("invalid whence: {whence}"))),
        };
        self.run(py, |mut file| file.seek(to))
    }

    /// Returns the position.
    #[pyo3(name = "tell")]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.get(py)?;
        Ok(self.position_bytes.load(Ordering::Relaxed))
    }

    /// Returns the size of the file, in bytes.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, |file| Ok(file.metadata()?.size_bytes))
    }

    /// Sets the size of the file.
    fn truncate(&self, py: Python<'_>, size: i64) -> PyResult<()> {
        let size = u64::try_from(size).map_err(|_| self.failed(py, &Errno::INVAL.into()))?;
        self.run(py, |file| file.set_len(size))
    }

    /// Makes the content and the attributes durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, File::sync_all)
    }

    /// Closes the file.
    fn close(&self, py: Python<'_>) {
        let closed = self.state.lock().take();
        py.detach(move || drop(closed));
    }
}

impl BaseFile {
    /// Returns the open file. In a child after fork(2), opens it again if the image is open for reading.
    fn get(&self, py: Python<'_>) -> PyResult<Arc<File>> {
        let closed = || PyValueError::new_err("I/O operation on closed file");
        let current = self.state.lock().as_ref().map(|file| file.get().cloned());
        match current {
            None => return Err(closed()),
            Some(Some(file)) => return Ok(file),
            Some(None) => {}
        }
        let position_bytes = self.position_bytes.load(Ordering::Relaxed);
        let file = self.fs.get().run(self.path.bind(py), |fs, path| {
            let mut file = fs.open(path)?;
            file.seek(SeekFrom::Start(position_bytes))?;
            Ok(Arc::new(file))
        })?;
        match &mut *self.state.lock() {
            None => Err(closed()),
            Some(state) => {
                // Another thread may have opened it meanwhile.
                if let Some(file) = state.get() {
                    return Ok(Arc::clone(file));
                }
                *state = Local::new(Arc::clone(&file));
                Ok(file)
            }
        }
    }

    /// Runs `operation` without the GIL.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&File) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        let file = self.get(py)?;
        let done = py.detach(|| {
            let done = operation(&file);
            self.note_position(&file);
            done
        });
        done.map_err(|error| self.failed(py, &error))
    }

    /// Stores the position of `file`. Can wait for another thread that reads or writes, so the caller must not hold the
    /// GIL.
    fn note_position(&self, mut file: &File) {
        if let Ok(position_bytes) = file.stream_position() {
            self.position_bytes.store(position_bytes, Ordering::Relaxed);
        }
    }

    fn failed(&self, py: Python<'_>, error: &io::Error) -> PyErr {
        error::of_file(error, self.path.bind(py))
    }
}

/// Returns the number of bytes between the position and the end of `file`.
fn left_bytes(mut file: &File) -> io::Result<u64> {
    let size_bytes = file.metadata()?.size_bytes;
    Ok(size_bytes.saturating_sub(file.stream_position()?))
}
