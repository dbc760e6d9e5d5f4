//! Creates images with mke2fs.

use crate::tool::{self, Tool};
use rustix::fd::AsRawFd;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;

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

/// Returns a run of mke2fs with `arguments`, which are separated by spaces. The caller adds the path of the
/// image, and the size if the image does not exist yet.
#[must_use]
pub fn mke2fs(arguments: &str) -> Tool {
    let arguments = arguments.split_whitespace();
    Tool::new("mke2fs").args(["-q", "-F"]).args(arguments)
}

/// Creates an unnamed file in memory and formats it with [`mke2fs()`].
///
/// # Errors
/// Returns [`Error::Missing`] if mke2fs is not installed, and [`Error::Failed`] if it fails.
pub fn formatted(size_bytes: u64, arguments: &str) -> Result<File, Error> {
    tool::find("mke2fs").ok_or(Error::Missing)?;
    let failed = |reason: String| Error::Failed { size_bytes, reason };
    let image = empty_file(size_bytes).map_err(|error| failed(error.to_string()))?;
    let (process, descriptor) = (std::process::id(), image.as_raw_fd());
    let made = mke2fs(arguments).arg(format!("/proc/{process}/fd/{descriptor}"));
    made.run().map_err(|error| failed(error.reason))?;
    Ok(image)
}

fn empty_file(size_bytes: u64) -> io::Result<File> {
    let file = File::from(memfd_create("image", MemfdFlags::CLOEXEC)?);
    file.set_len(size_bytes)?;
    Ok(file)
}
