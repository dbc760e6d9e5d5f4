//! Whole files: read, write and copy.

use super::file::File;
use super::options::FileOptions;
use super::path::{Fs, Last};
use crate::{Errno, Error};
use std::io::{self, Read, Write};
use std::path::Path;

impl Fs {
    /// Opens the regular file at `path` for reading.
    ///
    /// # Errors
    /// The same as for [`std::fs::File::open`], and `IsADirectory` for a directory.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        self.open_with(path, FileOptions::new().read(true))
    }

    /// Opens the file at `path` for writing. Creates the file if it does not exist, and empties it
    /// if it does.
    ///
    /// # Errors
    /// The same as for [`std::fs::File::create`].
    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<File> {
        self.open_with(
            path,
            FileOptions::new().write(true).create(true).truncate(true),
        )
    }

    /// Returns the content of the file at `path`.
    ///
    /// # Errors
    /// The same as for [`std::fs::read`].
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut file = self.open(path)?;
        let size_bytes = usize::try_from(file.metadata()?.size_bytes).unwrap_or(usize::MAX);
        let mut content = Vec::new();
        content.try_reserve_exact(size_bytes)?;
        file.read_to_end(&mut content)?;
        Ok(content)
    }

    /// Returns the content of the file at `path` as a string.
    ///
    /// # Errors
    /// The same as for [`std::fs::read_to_string`].
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let content = self.read(path)?;
        String::from_utf8(content)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Writes `content` to the file at `path`, which is created, or emptied first.
    ///
    /// # Errors
    /// The same as for [`std::fs::write`].
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
        self.create(path)?.write_all(content.as_ref())
    }

    /// Copies the content and the permissions of one file of the image to another. Returns the
    /// number of bytes copied.
    ///
    /// # Errors
    /// The same as for [`std::fs::copy`], and `InvalidInput` if both paths lead to the same file.
    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
        let volume = self.volume();
        let source = self.pin(from.as_ref(), Last::Follow)?;
        let metadata = volume.metadata(source.ino())?;
        if !metadata.is_file() {
            return Err(Error::Errno(Errno::INVAL).into());
        }
        let options = FileOptions::new().write(true).create(true);
        let target = self.open_with(to, options.mode(metadata.permissions))?;
        if target.ino() == source.ino() {
            return Err(Error::Errno(Errno::INVAL).into());
        }
        target.set_len(0)?;
        target.set_permissions(metadata.permissions)?;
        let size_bytes = metadata.size_bytes;
        let mut at_bytes = 0;
        while at_bytes < size_bytes {
            let left_bytes = size_bytes - at_bytes;
            let (from, to) = (source.ino(), target.ino());
            match volume.copy_range(from, at_bytes, to, at_bytes, left_bytes)? {
                0 => break,
                len_bytes => at_bytes += len_bytes,
            }
        }
        Ok(at_bytes)
    }
}
