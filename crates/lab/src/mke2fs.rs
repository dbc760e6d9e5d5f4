//! Creates images in memory with mke2fs.

use rustix::fd::AsRawFd;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// Directories of mke2fs that `PATH` omits for ordinary users.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// The reasons why an image cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// mke2fs is not installed.
    #[error("mke2fs, which creates the image of the volume, is not installed")]
    Missing,
    /// mke2fs or the system failed.
    #[error("cannot create an image of {size_bytes} bytes for the volume: {reason}")]
    Failed {
        /// The requested size.
        size_bytes: u64,
        /// The error message of mke2fs or the system.
        reason: String,
    },
}

/// Creates an unnamed file in memory and formats it with mke2fs. `options` are separated by single blanks.
///
/// # Errors
/// Returns [`Error::Missing`] if mke2fs is not installed, and [`Error::Failed`] if it fails.
pub fn formatted(size_bytes: u64, options: &str) -> Result<File, Error> {
    let failed = |reason: String| Error::Failed { size_bytes, reason };
    let image = empty_file(size_bytes).map_err(|error| failed(error.to_string()))?;
    let made = Command::new(find().ok_or(Error::Missing)?)
        .args(["-q", "-F"])
        .args(options.split(' '))
        .arg(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            image.as_raw_fd()
        ))
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !made.status.success() {
        return Err(failed(String::from_utf8_lossy(&made.stderr).into_owned()));
    }
    Ok(image)
}

fn empty_file(size_bytes: u64) -> io::Result<File> {
    let file = File::from(memfd_create("image", MemfdFlags::CLOEXEC)?);
    file.set_len(size_bytes)?;
    Ok(file)
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join("mke2fs"))
        .find(|candidate| candidate.is_file())
}
