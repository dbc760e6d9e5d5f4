//! The content of regular files, with its holes.

use super::error::CopyError;
use super::observer::Observer;
use crate::{Errno, Ino, Volume};
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A good size for the buffer of a copy, in bytes.
pub const BUFFER_BYTES: usize = 1 << 20;

/// Writes the content of the regular file `ino` of the image, whose size is `size_bytes`, to
/// `output`, which must be empty. A hole stays a hole. `buffer` must not be empty.
pub fn write_content(
    volume: &Volume,
    ino: Ino,
    size_bytes: u64,
    output: &File,
    buffer: &mut [u8],
    observer: &mut dyn Observer,
) -> Result<(), CopyError> {
    output.set_len(size_bytes).map_err(CopyError::copy)?;
    let mut at_bytes = 0;
    while at_bytes < size_bytes {
        let start_bytes = match volume.seek_data(ino, at_bytes) {
            Ok(start_bytes) => start_bytes,
            Err(error) if error.errno() == Errno::NXIO => break,
            Err(error) => return Err(CopyError::image(error)),
        };
        let end_bytes = volume.seek_hole(ino, start_bytes);
        let end_bytes = end_bytes.map_err(CopyError::image)?;
        at_bytes = start_bytes;
        while at_bytes < end_bytes {
            let part = part(buffer, end_bytes - at_bytes);
            let len = volume.read_at(ino, part, at_bytes);
            let len = len.map_err(CopyError::image)?;
            if len == 0 {
                // The last run of data ends at a block boundary, but the file may end inside that
                // block.
                return Ok(());
            }
            let read = part.get(..len).unwrap_or_default();
            let written = output.write_all_at(read, at_bytes);
            written.map_err(CopyError::copy)?;
            at_bytes += len as u64;
            observer.copied(len as u64);
        }
    }
    Ok(())
}

/// Writes the content of `file` to the empty file `copy` of the image.
pub(super) fn read_content(
    volume: &Volume,
    file: &File,
    copy: Ino,
    buffer: &mut [u8],
    observer: &mut dyn Observer,
) -> Result<(), CopyError> {
    let size_bytes = file.metadata().map_err(CopyError::source)?.len();
    let mut run = |range: Range<u64>| -> Result<u64, CopyError> {
        let mut at_bytes = range.start;
        while at_bytes < range.end {
            let part = part(buffer, range.end - at_bytes);
            let len = match file.read_at(part, at_bytes) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(CopyError::source(error)),
            };
            let read = part.get(..len).unwrap_or_default();
            let written = volume.write_all_at(copy, read, at_bytes);
            written.map_err(CopyError::copy)?;
            at_bytes += len as u64;
            observer.copied(len as u64);
        }
        Ok(at_bytes)
    };
    let mut at_bytes = 0;
    while at_bytes < size_bytes {
        let data = data_run(file, at_bytes, size_bytes).map_err(CopyError::source)?;
        let Some(data) = data else {
            // If the file ends in a hole, writing the data has not set the size of the copy.
            let grown = volume.truncate(copy, size_bytes);
            grown.map_err(CopyError::copy)?;
            at_bytes = size_bytes;
            break;
        };
        let end_bytes = data.end;
        at_bytes = run(data)?;
        if at_bytes < end_bytes {
            // The source was truncated during the copy.
            return Ok(());
        }
    }
    // There may be more data: the file may have grown, or its size is not known, as in /proc.
    run(at_bytes..u64::MAX).map(drop)
}

/// Returns the next run of data of `file`, a file of the host with `size_bytes`, at or after `at_bytes`. Returns `None` if
/// there is no more data. If the host's file system does not report holes, the run is the rest of the file.
///
/// # Errors
/// An error of lseek(2).
pub fn data_run(file: &File, at_bytes: u64, size_bytes: u64) -> Result<Option<Range<u64>>, Errno> {
    let start_bytes = match seek(file, SeekFrom::Data(at_bytes)) {
        Ok(start_bytes) => start_bytes,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL) => return Ok(Some(at_bytes..size_bytes)),
        Err(errno) => return Err(errno),
    };
    let end_bytes = seek(file, SeekFrom::Hole(start_bytes))?;
    Ok(Some(start_bytes..end_bytes.min(size_bytes)).filter(|run| !run.is_empty()))
}

/// Returns the part of `buffer` for the next read, of at most `left_bytes`.
fn part(buffer: &mut [u8], left_bytes: u64) -> &mut [u8] {
    let left = usize::try_from(left_bytes).unwrap_or(usize::MAX);
    let len = left.min(buffer.len());
    buffer.get_mut(..len).unwrap_or_default()
}
