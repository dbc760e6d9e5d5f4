//! An image as a tree of files: the methods of `larder.Fs` that need Rust.

use crate::buffer::Source;
use crate::content::content;
use crate::entry::{DirEntry, Listed};
use crate::image::{BaseFs, open};
use crate::opening::{Opening, Settings};
use crate::path::{NameType, to_path};
use crate::process::Local;
use crate::status::statvfs_result;
use larder::{Errno, SetTime, Timestamp, XattrMode};
use parking_lot::Mutex;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

const NANOSECONDS: i128 = 1_000_000_000;

#[pymethods]
impl BaseFs {
    /// Opens an image, or uses the one that `source` has opened with the same settings. Without `source`, the image is
    /// open until this object is closed. With `source`, it is open until both are closed.
    #[new]
    #[pyo3(signature = (settings, source = None))]
    fn new(py: Python<'_>, settings: Settings, source: Option<Py<Self>>) -> PyResult<Self> {
        let opening = Opening::new(settings)?;
        let fs = match source {
            Some(source) => source.get().get(py)?,
            None => open(py, &opening)?,
        };
        Ok(Self {
            opening,
            state: Mutex::new(Some(Local::new(fs))),
        })
    }

    /// The path of the image, or its URL without secrets.
    #[getter]
    fn image(&self) -> String {
        self.opening.label()
    }

    /// Whether the image is open for writing.
    #[getter]
    fn read_write(&self) -> bool {
        self.opening.is_read_write()
    }

    /// Whether the image is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.state.lock().is_none()
    }

    /// Returns the statistics of the caches, readahead and the device, as `larder stats --json` prints them.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let fs = self.get(py)?;
        let text = py.detach(|| serde_json::to_string(&fs.volume().stats()));
        let text = text.map_err(|error| PyValueError::new_err(error.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// Returns the attributes of the file at `path`, like `os.stat`.
    #[pyo3(signature = (path, *, follow_symlinks = true))]
    fn stat<'py>(
        &self,
        path: &Bound<'py, PyAny>,
        follow_symlinks: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.status(path, follow_symlinks)
    }

    /// Returns the attributes of the file at `path`. A symbolic link is not followed.
    fn lstat<'py>(&self, path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.status(path, false)
    }

    /// Returns the sizes and the free space of the file system, like `os.statvfs`.
    fn statvfs<'py>(&self, path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let free = self.run(path, |fs, path| {
            fs.metadata(path)?;
            Ok(fs.volume().statfs())
        })?;
        statvfs_result(path.py(), &free, !self.opening.is_read_write())
    }

    /// Returns whether the file exists. A symbolic link exists if its target does.
    fn exists(&self, path: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.found(path, true)?.is_some())
    }

    /// Returns whether the name exists, also if it is a symbolic link without a target.
    fn lexists(&self, path: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.found(path, false)?.is_some())
    }

    /// Returns whether the file is a regular file.
    fn is_file(&self, path: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.found(path, true)?.is_some_and(|found| found.is_file()))
    }

    /// Returns whether the file is a directory.
    fn is_dir(&self, path: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.found(path, true)?.is_some_and(|found| found.is_dir()))
    }

    /// Returns whether the file is a symbolic link.
    fn is_symlink(&self, path: &Bound<'_, PyAny>) -> PyResult<bool> {
        let found = self.found(path, false)?;
        Ok(found.is_some_and(|found| found.is_symlink()))
    }

    /// Returns the names in the directory at `path`, without `.` and `..`.
    fn listdir<'py>(&self, path: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let names: Vec<OsString> = self.run(path, |fs, path| {
            fs.read_dir(path)?
                .map(|entry| Ok(entry?.file_name().to_owned()))
                .collect()
        })?;
        let name_type = NameType::of(path)?;
        let object = |name| name_type.object(path.py(), name);
        names.into_iter().map(object).collect()
    }

    /// Returns the entries of the directory at `path`, without `.` and `..`.
    fn entries(this: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<Vec<DirEntry>> {
        let listed: Vec<Listed> = this.get().run(path, |fs, path| {
            fs.read_dir(path)?
                .map(|entry| Listed::new(&entry?))
                .collect()
        })?;
        let directory: Arc<Path> = to_path(path)?.into();
        let name_type = NameType::of(path)?;
        let entry =
            |listed: Listed| listed.into_entry(this.clone().unbind(), &directory, name_type);
        Ok(listed.into_iter().map(entry).collect())
    }

    /// Returns the target of the symbolic link at `path`.
    fn readlink<'py>(&self, path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let target = self.run(path, |fs, path| fs.read_link(path))?;
        NameType::of(path)?.object(path.py(), target)
    }

    /// Returns the content of the file at `path`.
    fn read_bytes<'py>(&self, path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let (file, size_bytes) = self.run(path, |fs, path| {
            let file = fs.open(path)?;
            let size_bytes = file.metadata()?.size_bytes;
            Ok((file, size_bytes))
        })?;
        let bytes = content(path.py(), size_bytes, |buf| file.read_at(buf, 0));
        bytes.map_err(|failed| failed.into_exception(path))
    }

    /// Writes `data` to the file at `path`, which is created, or emptied first. Returns the number of bytes.
    fn write_bytes(&self, path: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let source = Source::new(data)?;
        self.run(path, |fs, path| {
            fs.create(path)?.write_all(source.bytes())?;
            Ok(source.bytes().len())
        })
    }

    /// Sets the size of the file at `path`.
    fn truncate(&self, path: &Bound<'_, PyAny>, length: u64) -> PyResult<()> {
        self.run(path, |fs, path| {
            let options = larder::FileOptions::new().write(true);
            fs.open_with(path, options)?.set_len(length)
        })
    }

    /// Creates the directory at `path`.
    #[pyo3(signature = (path, mode = 0o777))]
    fn mkdir(&self, path: &Bound<'_, PyAny>, mode: u16) -> PyResult<()> {
        self.run(path, |fs, path| fs.create_dir_with(path, mode))
    }

    /// Creates the directory `name`, and each parent that is missing.
    #[pyo3(signature = (name, mode = 0o777, exist_ok = false))]
    fn makedirs(&self, name: &Bound<'_, PyAny>, mode: u16, exist_ok: bool) -> PyResult<()> {
        self.run(name, |fs, path| {
            let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
            if let Some(parent) = parent {
                match fs.create_dir_all(parent) {
                    // A parent that is not a directory. `os.makedirs` raises the error of the last `mkdir` instead.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    created => created?,
                }
            }
            match fs.create_dir_with(path, mode) {
                Err(_) if exist_ok && fs.metadata(path).is_ok_and(|found| found.is_dir()) => Ok(()),
                outcome => outcome,
            }
        })
    }

    /// Removes the file at `path`. A symbolic link is not followed.
    fn remove(&self, path: &Bound<'_, PyAny>) -> PyResult<()> {
        self.run(path, |fs, path| fs.remove_file(path))
    }

    /// Removes the empty directory at `path`.
    fn rmdir(&self, path: &Bound<'_, PyAny>) -> PyResult<()> {
        self.run(path, |fs, path| fs.remove_dir(path))
    }

    /// Removes the directory at `path` with everything in it. The first error ends the removal.
    fn remove_tree(&self, path: &Bound<'_, PyAny>) -> PyResult<()> {
        self.run(path, |fs, path| fs.remove_dir_all(path))
    }

    /// Renames `src` to `dst`. An existing file is replaced.
    fn rename(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>) -> PyResult<()> {
        self.run_two(src, dst, |fs, src, dst| fs.rename(src, dst))
    }

    /// Creates the symbolic link `dst` with the target `src`.
    fn symlink(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>) -> PyResult<()> {
        self.run_two(src, dst, |fs, src, dst| fs.symlink(src, dst))
    }

    /// Adds the name `dst` to the file `src`.
    fn link(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>) -> PyResult<()> {
        self.run_two(src, dst, |fs, src, dst| fs.hard_link(src, dst))
    }

    /// Copies the content and the permissions of the file `src` to `dst`, within the image.
    fn copy(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>) -> PyResult<()> {
        self.run_two(src, dst, |fs, src, dst| fs.copy(src, dst).map(drop))
    }

    /// Copies the file or the tree `src` of the host to `dst` in the image.
    fn copy_in(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>) -> PyResult<()> {
        self.run_two(src, dst, |fs, src, dst| fs.copy_in(src, dst))
    }

    /// Copies the file or the tree `src` of the image to `dst` on the host.
    fn copy_out(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>) -> PyResult<()> {
        self.run_two(src, dst, |fs, src, dst| fs.copy_out(src, dst))
    }

    /// Sets the permission bits of the file at `path`.
    fn chmod(&self, path: &Bound<'_, PyAny>, mode: u32) -> PyResult<()> {
        let permissions = u16::try_from(mode & 0o7777)?;
        self.run(path, |fs, path| fs.set_permissions(path, permissions))
    }

    /// Sets the owner and the group of the file at `path`. -1 leaves a value unchanged.
    #[pyo3(signature = (path, uid, gid, *, follow_symlinks = true))]
    fn chown(
        &self,
        path: &Bound<'_, PyAny>,
        uid: i64,
        gid: i64,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let (uid, gid) = (changed_id(uid)?, changed_id(gid)?);
        self.run(path, |fs, path| {
            if follow_symlinks {
                fs.chown(path, uid, gid)
            } else {
                fs.lchown(path, uid, gid)
            }
        })
    }

    /// Sets the times of the last access and of the last change of the content of the file at `path`, in nanoseconds
    /// since 1970.
    /// Without times, sets both to the current time.
    #[pyo3(signature = (path, ns = None, *, follow_symlinks = true))]
    fn set_times(
        &self,
        path: &Bound<'_, PyAny>,
        ns: Option<(i128, i128)>,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let (accessed, modified) = match ns {
            Some((accessed, modified)) => (timestamp(accessed)?, timestamp(modified)?),
            None => (SetTime::Now, SetTime::Now),
        };
        let (accessed, modified) = (Some(accessed), Some(modified));
        self.run(path, |fs, path| {
            if follow_symlinks {
                fs.set_times(path, accessed, modified)
            } else {
                fs.set_times_nofollow(path, accessed, modified)
            }
        })
    }

    /// Returns the value of an extended attribute of the file at `path`.
    #[pyo3(signature = (path, attribute, *, follow_symlinks = true))]
    fn getxattr<'py>(
        &self,
        path: &Bound<'py, PyAny>,
        attribute: &Bound<'py, PyAny>,
        follow_symlinks: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let name = to_path(attribute)?;
        let value = self.run(path, |fs, path| {
            let value = if follow_symlinks {
                fs.xattr(path, &name)
            } else {
                fs.xattr_nofollow(path, &name)
            };
            value?.ok_or_else(|| Errno::NODATA.into())
        })?;
        Ok(PyBytes::new(path.py(), &value))
    }

    /// Sets an extended attribute of the file at `path`. `flags` can be `os.XATTR_CREATE` or `os.XATTR_REPLACE`.
    #[pyo3(signature = (path, attribute, value, flags = 0, *, follow_symlinks = true))]
    fn setxattr(
        &self,
        path: &Bound<'_, PyAny>,
        attribute: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        flags: u32,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let (name, value) = (to_path(attribute)?, Source::new(value)?);
        self.run(path, |fs, path| {
            let mode = match flags {
                0 => XattrMode::Any,
                1 => XattrMode::Create,
                2 => XattrMode::Replace,
                _ => return Err(Errno::INVAL.into()),
            };
            if follow_symlinks {
                fs.set_xattr_with(path, &name, value.bytes(), mode)
            } else {
                fs.set_xattr_with_nofollow(path, &name, value.bytes(), mode)
            }
        })
    }

    /// Removes an extended attribute of the file at `path`.
    #[pyo3(signature = (path, attribute, *, follow_symlinks = true))]
    fn removexattr(
        &self,
        path: &Bound<'_, PyAny>,
        attribute: &Bound<'_, PyAny>,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let name = to_path(attribute)?;
        self.run(path, |fs, path| {
            if follow_symlinks {
                fs.remove_xattr(path, &name)
            } else {
                fs.remove_xattr_nofollow(path, &name)
            }
        })
    }

    /// Returns the names of the extended attributes of the file at `path`.
    #[pyo3(signature = (path, *, follow_symlinks = true))]
    fn listxattr(&self, path: &Bound<'_, PyAny>, follow_symlinks: bool) -> PyResult<Vec<OsString>> {
        self.run(path, |fs, path| {
            if follow_symlinks {
                fs.xattrs(path)
            } else {
                fs.xattrs_nofollow(path)
            }
        })
    }

    /// Makes all changes durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let fs = self.get(py)?;
        let synced = py.detach(|| fs.sync_all());
        synced.map_err(|error| self.failed(&error))
    }

    /// Writes all changes, and closes the image. Has no effect if the image is closed, or if a parent process
    /// opened it before a fork.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(fs) = self.state.lock().take().and_then(Local::into_value) else {
            return Ok(());
        };
        let closed = py.detach(move || fs.close());
        closed.map_err(|error| self.failed(&error))
    }
}

/// Returns the argument of chown(2) as an option.
fn changed_id(id: i64) -> PyResult<Option<u32>> {
    match id {
        -1 => Ok(None),
        id => Ok(Some(u32::try_from(id)?)),
    }
}

fn timestamp(nanoseconds: i128) -> PyResult<SetTime> {
    let seconds = i64::try_from(nanoseconds.div_euclid(NANOSECONDS));
    let rest = u32::try_from(nanoseconds.rem_euclid(NANOSECONDS));
    let (Ok(seconds), Ok(nanoseconds)) = (seconds, rest) else {
        return Err(PyOverflowError::new_err("the time is out of range"));
    };
    Ok(SetTime::To(Timestamp {
        seconds,
        nanoseconds,
    }))
}
