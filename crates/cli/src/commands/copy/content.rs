//! The content of a regular file, with its holes.

use indicatif::ProgressBar;
use larder::{Ino, Volume};
use larder_console::{Failure, Result};
use rustix::io::Errno;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// The size of one read and write in bytes.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// Writes the data of `ino` to `output`, an empty file, and keeps its holes.
pub(super) fn copy(
    volume: &Volume,
    ino: Ino,
    size_bytes: u64,
    output: &File,
    piece: &mut [u8],
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
        offset_bytes = copy_range(volume, ino, start_bytes..end_bytes, output, piece, progress)?;
        if offset_bytes < end_bytes {
            // The file ends inside its last block.
            break;
        }
    }
    Ok(())
}

/// Writes the data of `ino` to `output`, with zeros for holes: pipes and devices have no holes.
pub(super) fn stream(
    volume: &Volume,
    ino: Ino,
    mut output: &File,
    piece: &mut [u8],
    progress: &ProgressBar,
) -> Result<()> {
    let mut offset_bytes = 0;
    loop {
        let len = volume.read_at(ino, piece, offset_bytes).map_err(failure)?;
        output.write_all(&piece[..len]).map_err(written)?;
        offset_bytes += len as u64;
        progress.inc(len as u64);
        if len < piece.len() {
            return Ok(());
        }
    }
}

/// Copies a range of data, and returns where it ended: at the end of the range or, if that is earlier,
/// at the end of the file.
fn copy_range(
    volume: &Volume,
    ino: Ino,
    range: std::ops::Range<u64>,
    output: &File,
    piece: &mut [u8],
    progress: &ProgressBar,
) -> Result<u64> {
    let mut at_bytes = range.start;
    while at_bytes < range.end {
        let left_bytes = usize::try_from(range.end - at_bytes).unwrap_or(usize::MAX);
        let wanted_bytes = left_bytes.min(piece.len());
        let len = volume
            .read_at(ino, &mut piece[..wanted_bytes], at_bytes)
            .map_err(failure)?;
        if len == 0 {
            break;
        }
        output
            .write_all_at(&piece[..len], at_bytes)
            .map_err(written)?;
        at_bytes += len as u64;
        progress.inc(len as u64);
    }
    Ok(at_bytes)
}

/// Returns an error as a failure.
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
