//! Copies the content of a regular file, with its holes.

use indicatif::ProgressBar;
use larder::{Ino, Volume};
use larder_console::{Failure, Result};
use rustix::io::Errno;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// The size of the buffer for one read and one write, in bytes.
pub(super) const BUFFER_BYTES: usize = 1 << 20;

/// Writes the data of the file `ino` to `output`, which must be empty. A hole stays a hole.
pub(super) fn copy(
    volume: &Volume,
    ino: Ino,
    size_bytes: u64,
    output: &File,
    buffer: &mut [u8],
    progress: &ProgressBar,
) -> Result<()> {
    output.set_len(size_bytes).map_err(written)?;
    let mut offset_bytes = 0;
    while offset_bytes < size_bytes {
        let start_bytes = match volume.seek_data(ino, offset_bytes) {
            Ok(start_bytes) => start_bytes,
            Err(error) if error.errno() == Errno::NXIO => break,
            Err(error) => return Err(failure(error)),
        };
        let end_bytes = volume.seek_hole(ino, start_bytes).map_err(failure)?;
        offset_bytes = copy_range(
            volume,
            ino,
            start_bytes..end_bytes,
            output,
            buffer,
            progress,
        )?;
        if offset_bytes < end_bytes {
            // The last run of data ends at a block boundary, but the file may end inside that block.
            break;
        }
    }
    Ok(())
}

/// Writes the data of the file `ino` to `output`, with zeros for holes, because a pipe or a device cannot
/// have holes.
pub(super) fn stream(
    volume: &Volume,
    ino: Ino,
    mut output: &File,
    buffer: &mut [u8],
    progress: &ProgressBar,
) -> Result<()> {
    let mut offset_bytes = 0;
    loop {
        let len = volume.read_at(ino, buffer, offset_bytes).map_err(failure)?;
        output.write_all(&buffer[..len]).map_err(written)?;
        offset_bytes += len as u64;
        progress.inc(len as u64);
        if len < buffer.len() {
            return Ok(());
        }
    }
}

/// Copies a range of data. Returns the offset where the copy ended: the end of the range, or the end of the
/// file if the file ends first.
fn copy_range(
    volume: &Volume,
    ino: Ino,
    range: std::ops::Range<u64>,
    output: &File,
    buffer: &mut [u8],
    progress: &ProgressBar,
) -> Result<u64> {
    let mut at_bytes = range.start;
    while at_bytes < range.end {
        let left_bytes = usize::try_from(range.end - at_bytes).unwrap_or(usize::MAX);
        let wanted_bytes = left_bytes.min(buffer.len());
        let len = volume
            .read_at(ino, &mut buffer[..wanted_bytes], at_bytes)
            .map_err(failure)?;
        if len == 0 {
            break;
        }
        output
            .write_all_at(&buffer[..len], at_bytes)
            .map_err(written)?;
        at_bytes += len as u64;
        progress.inc(len as u64);
    }
    Ok(at_bytes)
}

/// Converts an error to a failure.
pub(super) fn failure(error: impl Display) -> Failure {
    Failure::new(error.to_string())
}

/// Returns the failure of a system call on a copy.
pub(super) fn written(error: impl Into<io::Error>) -> Failure {
    let error = error.into();
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::new(format!("cannot write the copy: {error}")),
    }
}
