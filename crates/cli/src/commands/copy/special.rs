//! Copies to a destination that is not a regular file, such as `/dev/stdout`. The content is written to the
//! existing file, which keeps its owner, permissions and times and is never removed.
//!
//! This applies only to a path that the user gave as the destination. A file below a destination directory is
//! never written into, because the image may have determined its name.

use super::reporter::Reporter;
use crate::commands::operands::is_same_image;
use larder::fs::copy::{BUFFER_BYTES, Observer, write_content};
use larder::{FileKind, Ino, Metadata, Volume};
use larder_console::{Failure, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens the destination for writing, if `source` is a regular file, and the destination is a device, a FIFO
/// or a symbolic link. Otherwise, and for a symbolic link to a directory, returns `None`, and the caller
/// creates the copy.
///
/// # Errors
/// Fails if the destination cannot be opened for writing. Also fails if the source and the destination are
/// special files or symbolic links of different types.
pub(super) fn opened(source: &Metadata, destination: &Path) -> Result<Option<File>> {
    // If the destination cannot be examined, creating the copy fails and reports the error.
    let Ok(present) = fs::symlink_metadata(destination) else {
        return Ok(None);
    };
    if present.is_file() || destination.is_dir() || source.kind == FileKind::Directory {
        return Ok(None);
    }
    if source.kind != FileKind::Regular {
        if is_of_kind(present.file_type(), source.kind) {
            return Ok(None);
        }
        return Err(Failure::with_hint(
            format!("{} is not a regular file", destination.display()),
            "remove it first: only a file of the same type can replace it",
        ));
    }
    let is_dangling = matches!(
        fs::metadata(destination),
        Err(error) if error.kind() == io::ErrorKind::NotFound
    );
    let opened = OpenOptions::new()
        .write(true)
        .truncate(true)
        .create(is_dangling)
        .mode(u32::from(source.permissions) & 0o777)
        .open(destination);
    opened.map(Some).map_err(|error| {
        Failure::new(format!(
            "cannot open {} for writing: {error}",
            destination.display()
        ))
    })
}

/// Writes the content of a regular file of the image to the file that [`opened`] returned.
pub(super) fn write(
    volume: &Volume,
    source: &Metadata,
    output: &File,
    reporter: &mut Reporter,
) -> Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let ino = source.ino;
    if output.metadata()?.is_file() {
        write_content(
            volume,
            ino,
            source.size_bytes,
            output,
            &mut buffer,
            reporter,
        )
        .map_err(|error| Failure::new(error.to_string()))
    } else {
        stream(volume, ino, output, &mut buffer, reporter)
    }
}

/// Writes the content of the file `ino` to `output`, with zeros for holes, because a pipe or a device cannot
/// have holes.
fn stream(
    volume: &Volume,
    ino: Ino,
    mut output: &File,
    buffer: &mut [u8],
    reporter: &mut Reporter,
) -> Result<()> {
    let mut offset_bytes = 0;
    loop {
        let len = volume
            .read_at(ino, buffer, offset_bytes)
            .map_err(|error| Failure::new(error.to_string()))?;
        output
            .write_all(&buffer[..len])
            .map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
                _ => Failure::new(format!("cannot write the copy: {error}")),
            })?;
        offset_bytes += len as u64;
        reporter.copied(len as u64);
        if len < buffer.len() {
            return Ok(());
        }
    }
}

/// Fails if the destination is the image from which files are copied.
pub(super) fn check_not_image(image: &Path, destination: &Path) -> Result<()> {
    if is_same_image(image, destination) {
        return Err(Failure::new(format!(
            "destination {} is the image itself",
            destination.display()
        )));
    }
    Ok(())
}

fn is_of_kind(present: fs::FileType, kind: FileKind) -> bool {
    match kind {
        FileKind::Symlink => present.is_symlink(),
        FileKind::CharDevice => present.is_char_device(),
        FileKind::BlockDevice => present.is_block_device(),
        FileKind::Fifo => present.is_fifo(),
        FileKind::Socket => present.is_socket(),
        _ => false,
    }
}
