//! The entries of directories.

use crate::error;
use crate::image::BaseFs;
use crate::path::NameType;
use larder::FileKind;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An entry of a directory, like `os.DirEntry`.
#[pyclass(module = "larder", frozen)]
#[derive(Debug)]
pub(crate) struct DirEntry {
    fs: Py<BaseFs>,
    directory: Arc<Path>,
    name: OsString,
    name_type: NameType,
    ino: u32,
    kind: FileKind,
}

/// What a listing returns for an entry.
pub(crate) struct Listed {
    name: OsString,
    ino: u32,
    kind: FileKind,
}

impl Listed {
    /// # Errors
    /// An error of the image, which is only read if the directory does not record types.
    pub(crate) fn new(entry: &larder::fs::DirEntry) -> io::Result<Self> {
        Ok(Self {
            name: entry.file_name().to_owned(),
            ino: entry.ino().0,
            kind: entry.kind()?,
        })
    }

    pub(crate) fn into_entry(
        self,
        fs: Py<BaseFs>,
        directory: &Arc<Path>,
        name_type: NameType,
    ) -> DirEntry {
        DirEntry {
            fs,
            directory: Arc::clone(directory),
            name: self.name,
            name_type,
            ino: self.ino,
            kind: self.kind,
        }
    }
}

#[pymethods]
impl DirEntry {
    /// Supports `DirEntry[str]` and `DirEntry[bytes]` in annotations.
    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let types = cls.py().import("types")?;
        types.call_method1("GenericAlias", (cls, item))
    }

    /// The name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.name_type.object(py, &self.name)
    }

    /// The path of the directory, as it was given to `scandir`, joined with the name.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.name_type.object(py, self.full_path())
    }

    /// Returns the inode number.
    fn inode(&self) -> u32 {
        self.ino
    }

    /// Returns whether the file is a directory.
    #[pyo3(signature = (*, follow_symlinks = true))]
    fn is_dir(&self, py: Python<'_>, follow_symlinks: bool) -> PyResult<bool> {
        self.is(py, FileKind::Directory, follow_symlinks)
    }

    /// Returns whether the file is a regular file.
    #[pyo3(signature = (*, follow_symlinks = true))]
    fn is_file(&self, py: Python<'_>, follow_symlinks: bool) -> PyResult<bool> {
        self.is(py, FileKind::Regular, follow_symlinks)
    }

    /// Returns whether the file is a symbolic link.
    fn is_symlink(&self) -> bool {
        self.kind == FileKind::Symlink
    }

    /// Returns the attributes of the file.
    #[pyo3(signature = (*, follow_symlinks = true))]
    fn stat<'py>(&self, py: Python<'py>, follow_symlinks: bool) -> PyResult<Bound<'py, PyAny>> {
        self.fs.get().status(&self.path(py)?, follow_symlinks)
    }

    fn __fspath__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.path(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<larder.DirEntry {}>", self.path(py)?.repr()?))
    }
}

impl DirEntry {
    fn full_path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// Returns whether the file is of this `kind`. Returns false for a link that is followed and whose target does not
    /// exist.
    fn is(&self, py: Python<'_>, kind: FileKind, follow_symlinks: bool) -> PyResult<bool> {
        if self.kind != FileKind::Symlink || !follow_symlinks {
            return Ok(self.kind == kind);
        }
        let path = self.full_path();
        let fs = self.fs.get().get(py)?;
        match py.detach(|| fs.metadata(&path)) {
            Ok(metadata) => Ok(metadata.kind == kind),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(why) => Err(error::of_file(&why, &self.path(py)?)),
        }
    }
}
