//! The content of a regular file, with its holes.

use super::progress::Progress;
use larder::{Ino, Volume};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

/// What is read and written at once, in bytes.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// Why content could not be copied.
#[derive(Debug)]
pub(super) enum Error {
    /// The image.
    Image(larder::Error),
    /// The destination.
    Output(std::io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Image(error) => error.fmt(f),
            Self::Output(error) => write!(f, "cannot write the copy: {error}"),
        }
    }
}

/// Writes the data of `ino` to `output`, an empty file, and leaves its holes out.
pub(super) fn copy(
    volume: &Volume,
    ino: Ino,
    size_bytes: u64,
    output: &File,
    piece: &mut [u8],
    progress: &Progress,
) -> Result<(), Error> {
    output.set_len(size_bytes).map_err(Error::Output)?;
    let mut offset_bytes = 0;
    while offset_bytes < size_bytes {
        let start_bytes = match volume.seek_data(ino, offset_bytes) {
            Ok(start_bytes) => start_bytes,
            Err(error) if error.errno() == Errno::NXIO => break,
            Err(error) => return Err(Error::Image(error)),
        };
        let end_bytes = volume.seek_hole(ino, start_bytes).map_err(Error::Image)?;
        offset_bytes = copy_range(volume, ino, start_bytes..end_bytes, output, piece, progress)?;
        if offset_bytes < end_bytes {
            // The file ends inside its last block.
            break;
        }
    }
    Ok(())
}

/// Writes the data of `ino` to `output`, holes as zeros: a pipe or a device cannot
/// leave anything out.
pub(super) fn stream(
    volume: &Volume,
    ino: Ino,
    mut output: &File,
    piece: &mut [u8],
    progress: &Progress,
) -> Result<(), Error> {
    let mut offset_bytes = 0;
    loop {
        let len = volume
            .read_at(ino, piece, offset_bytes)
            .map_err(Error::Image)?;
        output.write_all(&piece[..len]).map_err(Error::Output)?;
        offset_bytes += len as u64;
        progress.add(len as u64);
        if len < piece.len() {
            return Ok(());
        }
    }
}

/// Copies a range of data, and returns where it ended: before the range's end at
/// the end of the file.
fn copy_range(
    volume: &Volume,
    ino: Ino,
    range: std::ops::Range<u64>,
    output: &File,
    piece: &mut [u8],
    progress: &Progress,
) -> Result<u64, Error> {
    let mut at_bytes = range.start;
    while at_bytes < range.end {
        let left_bytes = usize::try_from(range.end - at_bytes).unwrap_or(usize::MAX);
        let wanted_bytes = left_bytes.min(piece.len());
        let len = volume
            .read_at(ino, &mut piece[..wanted_bytes], at_bytes)
            .map_err(Error::Image)?;
        if len == 0 {
            break;
        }
        output
            .write_all_at(&piece[..len], at_bytes)
            .map_err(Error::Output)?;
        at_bytes += len as u64;
        progress.add(len as u64);
    }
    Ok(at_bytes)
}
