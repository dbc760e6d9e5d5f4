//! Files that replace others when they are complete.

use super::error::Result;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A new file, which replaces the file at `path` when the new file is complete. Only its owner can access it.
#[derive(Debug)]
pub(super) struct Pending {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl Pending {
    /// Creates the file beside `path`.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".pending-{}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let mut options = File::options();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            file,
        })
    }

    /// Calls `write` to write the file, and moves it to its path.
    pub(super) fn replace(&self, write: impl FnOnce(&File) -> Result<()>) -> Result<()> {
        write(&self.file)?;
        self.file.sync_all()?;
        Ok(fs::rename(&self.temporary, &self.path)?)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Fails after the file was moved.
        let _ = fs::remove_file(&self.temporary);
    }
}
