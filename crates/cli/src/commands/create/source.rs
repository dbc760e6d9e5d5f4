//! The sources of a new image: directories and tar archives.

use super::archive::Archive;
use crate::commands::copy::host_bytes;
use crate::image_path::ImagePath;
use crate::progress;
use larder_console::{Failure, Result};
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A directory or an archive.
#[derive(Debug)]
pub(super) enum Source {
    Directory(PathBuf),
    Archive(ArchiveFile),
}

/// The file with an archive.
#[derive(Debug)]
pub(super) struct ArchiveFile {
    path: PathBuf,
    file: File,
    /// Where the archive begins, if the file can be read several times.
    start_bytes: Option<u64>,
}

impl Source {
    /// Opens `path`; `-` is standard input. If the source `is_read_twice` and is not a file, for example a pipe, it is
    /// first copied to a file without a name in `directory`.
    pub(super) fn open(path: &Path, is_read_twice: bool, directory: &Path) -> Result<Self> {
        let failed = |error: io::Error| of_source(path, &error);
        let is_input = path == Path::new("-");
        if ImagePath::parse(path.as_os_str()).is_some_and(|inside| inside.image.is_file()) {
            let shown = path.display();
            return Err(Failure::usage_with_hint(
                format!("{shown} is a path in an image, and a source is a directory or an archive"),
                format!("larder export {shown} | larder create NEW.img --from -"),
            ));
        }
        if !is_input && fs::metadata(path).map_err(failed)?.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        let mut file = if is_input {
            File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?)
        } else {
            File::open(path).map_err(failed)?
        };
        let mut start_bytes = None;
        if file.metadata().map_err(failed)?.is_file() {
            start_bytes = Some(file.stream_position().map_err(failed)?);
        } else if is_read_twice {
            let progress = progress::spinner();
            let copied = tempfile::tempfile_in(directory).and_then(|mut copy| {
                io::copy(&mut progress.wrap_read(&file), &mut copy)?;
                Ok(copy)
            });
            progress.finish_and_clear();
            file = copied.map_err(|error| {
                Failure::new(format!("cannot keep a copy of the archive: {error}"))
            })?;
            start_bytes = Some(0);
        }
        Ok(Self::Archive(ArchiveFile {
            path: path.to_owned(),
            file,
            start_bytes,
        }))
    }

    /// Returns whether the number of bytes that a copy reads is known. For a pipe, it is unknown.
    pub(super) fn has_length(&self) -> bool {
        match self {
            Self::Directory(_) => true,
            Self::Archive(archive) => archive.start_bytes.is_some(),
        }
    }

    /// Returns the number of bytes that a copy reads; 0 if it is unknown.
    pub(super) fn len_bytes(&self) -> u64 {
        match self {
            Self::Directory(path) => host_bytes(path),
            Self::Archive(archive) => archive.len_bytes(),
        }
    }
}

impl ArchiveFile {
    /// Returns the archive from its start. If the input is not a file, this works only once.
    pub(super) fn read(&self) -> Result<Archive> {
        let open = || {
            let mut file = self.file.try_clone()?;
            if let Some(start_bytes) = self.start_bytes {
                file.seek(SeekFrom::Start(start_bytes))?;
            }
            Ok(file)
        };
        let file = open().map_err(|error| of_source(&self.path, &error))?;
        Ok(Archive::new(file, self.start_bytes.is_some()))
    }

    fn len_bytes(&self) -> u64 {
        let len_bytes = self.file.metadata().map_or(0, |metadata| metadata.len());
        len_bytes.saturating_sub(self.start_bytes.unwrap_or(len_bytes))
    }
}

/// Returns the failure for an error of the source at `path`.
pub(super) fn of_source(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot read the source: {error}")).at(path.as_os_str().as_bytes())
}
