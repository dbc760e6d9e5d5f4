//! The destination of an archive.

use crate::args::ImageArgs;
use crate::commands::operands::is_same_image;
use crate::commands::unfinished;
use larder_console::{Failure, Result, name};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The beginning of the name of a file that is not complete.
const PREFIX: &str = ".larder-export-";

/// The destination of an archive.
#[derive(Debug)]
pub(super) enum Output {
    /// Standard output.
    Stdout(File),
    /// A file that is not regular, such as a FIFO.
    Open(File),
    /// A file that gets the name `path` when it is complete.
    New {
        /// The file, in the directory of `path`.
        file: NamedTempFile,
        /// The name.
        path: PathBuf,
    },
}

impl Output {
    /// Opens the file at `path`, or standard output.
    ///
    /// # Errors
    /// If standard output or the file is a terminal, the file is the image or its overlay, or the file cannot be created.
    pub(super) fn open(path: Option<&Path>, source: &ImageArgs) -> Result<Self> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            let stdout = io::stdout();
            if stdout.is_terminal() {
                return Err(Failure::usage_with_hint(
                    "standard output is a terminal",
                    "redirect it, as in larder export IMAGE > FILE, or give --output FILE",
                ));
            }
            // Without the buffer of `Stdout`, which is flushed after each newline.
            let file = stdout.as_fd().try_clone_to_owned()?;
            return Ok(Self::Stdout(file.into()));
        };
        let shown = name::escaped(path.as_os_str().as_bytes());
        if is_same_image(path, &source.image) {
            return Err(Failure::usage(format!("{shown} is the image itself")));
        }
        if let Some(overlay) = &source.volume.overlay
            && is_same_image(path, overlay)
        {
            let message = format!("{shown} is the overlay of the image");
            return Err(Failure::usage(message));
        }
        let failed = |error: io::Error| Failure::new(format!("cannot create {shown}: {error}"));
        match fs::metadata(path) {
            Ok(present) if present.is_dir() => Err(failed(io::ErrorKind::IsADirectory.into())),
            Ok(present) if !present.is_file() => {
                let file = OpenOptions::new().write(true).open(path);
                let file = file.map_err(failed)?;
                if file.is_terminal() {
                    return Err(Failure::usage_with_hint(
                        format!("{shown} is a terminal"),
                        "name a file with --output",
                    ));
                }
                Ok(Self::Open(file))
            }
            // A symbolic link stays, and the file to which it leads is replaced.
            Ok(present) => {
                let path = fs::canonicalize(path).map_err(failed)?;
                let file = unfinished::create_private(&path, PREFIX).map_err(failed)?;
                let kept = unfinished::keep_attributes(file.as_file(), &present);
                kept.map_err(|error| {
                    Failure::with_hint(
                        format!("cannot keep the owner and the permissions of {shown}: {error}"),
                        "remove the file first, or name another one",
                    )
                })?;
                Ok(Self::New { file, path })
            }
            Err(error) if path.is_symlink() => Err(Failure::with_hint(
                format!("cannot follow the symbolic link {shown}: {error}"),
                "remove the link, or name the file itself",
            )),
            Err(_) => {
                let file = unfinished::create(path, PREFIX).map_err(failed)?;
                let path = path.to_owned();
                Ok(Self::New { file, path })
            }
        }
    }

    /// Returns whether the archive is written to standard output, because no file is named.
    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout(_))
    }

    /// Returns whether the archive is written to a regular file.
    pub(super) fn is_file(&self) -> bool {
        match self {
            Self::Stdout(file) => file.metadata().is_ok_and(|metadata| metadata.is_file()),
            Self::Open(_) => false,
            Self::New { .. } => true,
        }
    }

    /// Completes the archive. A new file gets its name when it is durable, so that a crash cannot lose the file that it
    /// replaces.
    ///
    /// # Errors
    /// The file cannot be written or renamed.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self {
            Self::Stdout(_) | Self::Open(_) => Ok(()),
            Self::New { file, path } => {
                file.as_file().sync_all()?;
                file.persist(path)?;
                Ok(())
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(file) | Self::Open(file) => file.write(bytes),
            Self::New { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(file) | Self::Open(file) => file.flush(),
            Self::New { file, .. } => file.flush(),
        }
    }
}
