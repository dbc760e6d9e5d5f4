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

/// The parts of a file that become holes of its copy in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holes {
    /// The holes that the file system of the host reports.
    OfSource,
    /// Each block of zeros, so that the copy depends only on the content.
    Zeros,
}

/// Writes the content of `file` to the empty file `copy` of the image.
///
/// With [`Holes::Zeros`], the same content causes the same writes to the image, whatever holes `file` has.
pub(super) fn read_content(
    volume: &Volume,
    file: &File,
    copy: Ino,
    holes: Holes,
    buffer: &mut [u8],
    observer: &mut dyn Observer,
) -> Result<(), CopyError> {
    let size_bytes = file.metadata().map_err(CopyError::source)?.len();
    let block_bytes = volume.inodes.block_bytes();
    let buffer_bytes = buffer.len() as u64;
    let mut run = |range: Range<u64>| -> Result<u64, CopyError> {
        let mut at_bytes = range.start;
        while at_bytes < range.end {
            // Reads end at multiples of the length of the buffer, wherever the run begins.
            let left_bytes = (range.end - at_bytes).min(buffer_bytes - at_bytes % buffer_bytes);
            let part = part(buffer, left_bytes);
            let len = read_full_at(file, part, at_bytes).map_err(CopyError::source)?;
            if len == 0 {
                break;
            }
            let read = part.get(..len).unwrap_or_default();
            let written = match holes {
                Holes::OfSource => volume.write_all_at(copy, read, at_bytes),
                Holes::Zeros => write_except_zeros(volume, copy, read, at_bytes),
            };
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
            at_bytes = size_bytes;
            break;
        };
        // The host can have smaller blocks than the image.
        let start_bytes = data.start - data.start % block_bytes;
        let end_bytes = data.end.next_multiple_of(block_bytes).min(size_bytes);
        at_bytes = run(start_bytes.max(at_bytes)..end_bytes)?;
        if at_bytes < end_bytes {
            // The source was truncated during the copy.
            return end_at(volume, copy, at_bytes);
        }
    }
    // There may be more data: the file may have grown, or its size is not known, as in /proc.
    let end_bytes = run(at_bytes..u64::MAX)?;
    end_at(volume, copy, end_bytes)
}

/// Extends the file `copy` to `size_bytes` if it is shorter. A hole at the end of the source was not written.
fn end_at(volume: &Volume, copy: Ino, size_bytes: u64) -> Result<(), CopyError> {
    let metadata = volume.metadata(copy).map_err(CopyError::copy)?;
    if metadata.size_bytes < size_bytes {
        let grown = volume.truncate(copy, size_bytes);
        grown.map_err(CopyError::copy)?;
    }
    Ok(())
}

/// Writes `bytes` to the regular file `ino` at `offset_bytes`, except blocks of zeros. Such a block stays a hole if it
/// was a hole before. Blocks of zeros at the end do not extend the file.
///
/// # Errors
/// Those of [`Volume::write_all_at`].
pub fn write_except_zeros(
    volume: &Volume,
    ino: Ino,
    bytes: &[u8],
    offset_bytes: u64,
) -> crate::Result<()> {
    for run in runs_except_zeros(bytes, offset_bytes, volume.inodes.block_bytes()) {
        let start_bytes = offset_bytes + run.start as u64;
        let run = bytes.get(run).unwrap_or_default();
        volume.write_all_at(ino, run, start_bytes)?;
    }
    Ok(())
}

/// Returns whether `bytes`, the content of a file from its start, contain a block of zeros. Blocks have the size of
/// those of `volume`.
#[must_use]
pub fn has_zero_block(volume: &Volume, bytes: &[u8]) -> bool {
    blocks(bytes, 0, volume.inodes.block_bytes()).any(|block| is_zeros(&bytes[block]))
}

/// Returns the runs of blocks that are not zeros. Adjacent blocks are in one run. `bytes` begin at `offset_bytes` of the file.
fn runs_except_zeros(bytes: &[u8], offset_bytes: u64, block_bytes: u64) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for block in blocks(bytes, offset_bytes, block_bytes) {
        if is_zeros(&bytes[block.clone()]) {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end == block.start => last.end = block.end,
            _ => runs.push(block),
        }
    }
    runs
}

/// Splits `bytes`, which begin at `offset_bytes` of a file, at the borders of its blocks.
fn blocks(
    bytes: &[u8],
    offset_bytes: u64,
    block_bytes: u64,
) -> impl Iterator<Item = Range<usize>> + use<> {
    let len = bytes.len();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let left_bytes = block_bytes - (offset_bytes + start as u64) % block_bytes;
        at = usize::try_from(left_bytes).map_or(len, |left| len.min(start.saturating_add(left)));
        (start < len).then_some(start..at)
    })
}

fn is_zeros(bytes: &[u8]) -> bool {
    // Each byte equals the next one.
    bytes.first().is_none_or(|&first| first == 0)
        && bytes.get(1..) == bytes.split_last().map(|(_, all)| all)
}

/// Returns the number of bytes in those blocks of `file` that are not zeros. `file` is a file of the host with
/// `size_bytes`, and is divided into blocks of `block_bytes`.
///
/// # Errors
/// An error of a read.
pub fn nonzero_bytes(file: &File, size_bytes: u64, block_bytes: u64) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut sum_bytes = 0;
    let mut at_bytes = 0;
    while let Some(data) = data_run(file, at_bytes, size_bytes)? {
        let end_bytes = data.end.next_multiple_of(block_bytes);
        at_bytes = at_bytes.max(data.start - data.start % block_bytes);
        while at_bytes < end_bytes {
            let part = part(&mut buffer, end_bytes - at_bytes);
            let len = read_full_at(file, part, at_bytes)?;
            if len == 0 {
                return Ok(sum_bytes);
            }
            let runs = runs_except_zeros(&part[..len], at_bytes, block_bytes);
            sum_bytes += runs.iter().map(|run| run.len() as u64).sum::<u64>();
            at_bytes += len as u64;
        }
    }
    Ok(sum_bytes)
}

/// Reads from `offset_bytes` of `file` until `buffer` is full, or the file ends. Returns the number of bytes.
pub(super) fn read_full_at(file: &File, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
    let mut len = 0;
    while let Some(left) = buffer.get_mut(len..)
        && !left.is_empty()
    {
        match file.read_at(left, offset_bytes + len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Returns the next run of data at or after `at_bytes` of `file`, a file of the host with `size_bytes`. Returns `None`
/// if there is no more data. If the host's file system does not report holes, the run is the rest of the file.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice;

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let mut bytes = vec![0; 50];
        (bytes[9], bytes[10], bytes[30]) = (1, 2, 3);
        assert_eq!(runs_except_zeros(&bytes, 0, 10), [0..20, 30..40]);
        // Blocks begin at 3, 13, ….
        assert_eq!(runs_except_zeros(&bytes, 7, 10), [3..13, 23..33]);
        assert_eq!(runs_except_zeros(&bytes[31..], 31, 10), []);
        assert_eq!(
            runs_except_zeros(&bytes[..10], 0, 4096),
            slice::from_ref(&(0..10))
        );
        assert!(is_zeros(&[]) && is_zeros(&[0]) && is_zeros(&[0, 0]));
        assert!(!is_zeros(&[1]) && !is_zeros(&[1, 1]) && !is_zeros(&[0, 1]) && !is_zeros(&[1, 0]));
    }

    #[test]
    fn count_does_not_depend_on_holes() {
        let mut content = vec![0; 100_000];
        content[50_000..60_000].fill(1);
        content[99_999] = 1;
        let full = tempfile::tempfile().unwrap();
        full.write_all_at(&content, 0).unwrap();
        let sparse = tempfile::tempfile().unwrap();
        sparse.set_len(100_000).unwrap();
        sparse
            .write_all_at(&content[50_000..60_000], 50_000)
            .unwrap();
        sparse.write_all_at(&[1], 99_999).unwrap();
        for file in [full, sparse] {
            let count = nonzero_bytes(&file, 100_000, 4096).unwrap();
            assert_eq!(count, 3 * 4096 + 100_000 % 4096);
        }
    }
}
