//! The content of regular files, and the map of sparse files.
//!
//! Format: 1.0 of GNU tar. The data begin with the map: the number of runs, and the offset and the length of each, as lines
//! of decimal digits, padded to a block. The runs follow.
//!
//! Cost: 16 bytes for each run, of which there are at most twice [`MAX_RUNS`], and 8 bytes for each hole while the
//! smallest holes are selected.

use super::header::{BLOCK_BYTES, pad};
use larder::{Error, Ino, Result, Volume};
use std::io::{self, Write};
use std::iter;
use std::ops::Range;

/// The maximum number of runs. In a file with more of them, the smallest holes are stored as zeros. The package archive/tar
/// of Go, which container programs use, refuses maps of more than 1 MiB, and a run has about 28 bytes in the map.
const MAX_RUNS: usize = 1 << 15;
/// The length of the parts in which data are read again after an error, in bytes.
const RETRY_BYTES: usize = 4096;
/// The smallest saving for which a file is stored as sparse, in bytes: one block, and two blocks for the records that
/// such a file needs.
const MIN_SAVED_BYTES: u64 = 3 * BLOCK_BYTES;

/// What an archive stores of a regular file.
#[derive(Debug)]
pub(super) struct Content {
    /// The map, padded to a block, or `None` if the file is not stored as sparse.
    map: Option<Vec<u8>>,
    /// The runs that follow.
    runs: Vec<Range<u64>>,
}

impl Content {
    /// Returns the content of the regular file `ino` of `size_bytes`. Reads only where it has data.
    ///
    /// # Errors
    /// An error of the image.
    pub(super) fn of(volume: &Volume, ino: Ino, size_bytes: u64) -> Result<Self> {
        let mut runs = Vec::new();
        let mut at_bytes = 0;
        while at_bytes < size_bytes {
            let start_bytes = match volume.seek_data(ino, at_bytes) {
                Ok(start_bytes) => start_bytes,
                Err(Error::NoMoreData(_)) => break,
                Err(error) => return Err(error),
            };
            at_bytes = volume.seek_hole(ino, start_bytes)?;
            runs.push(start_bytes..at_bytes.min(size_bytes));
            // A hole that is not one of the largest now is not one of them later.
            if runs.len() >= 2 * MAX_RUNS {
                limit(&mut runs);
            }
        }
        limit(&mut runs);
        Ok(Self::new(runs, size_bytes))
    }

    /// Returns the content of a file of `size_bytes` with data in `runs`, which are in order.
    fn new(runs: Vec<Range<u64>>, size_bytes: u64) -> Self {
        let map = map(&runs, size_bytes);
        let sparse = Self {
            map: Some(map),
            runs,
        };
        let saved_bytes = size_bytes.saturating_sub(sparse.data_bytes());
        if saved_bytes >= MIN_SAVED_BYTES {
            return sparse;
        }
        Self {
            map: None,
            runs: iter::once(0..size_bytes).collect(),
        }
    }

    /// Returns whether the file is stored as sparse.
    pub(super) fn is_sparse(&self) -> bool {
        self.map.is_some()
    }

    /// Returns the size of the data in the archive.
    pub(super) fn data_bytes(&self) -> u64 {
        let map_bytes = self.map.as_ref().map_or(0, Vec::len) as u64;
        self.runs.iter().fold(map_bytes, |total, run| {
            total.saturating_add(run.end.saturating_sub(run.start))
        })
    }

    /// Writes the data and the padding. `read` reads the file into a buffer, from an offset. If it fails, reads smaller parts.
    /// Zeros are written for the parts that cannot be read, and the first error is returned.
    ///
    /// # Errors
    /// An error of `out`.
    pub(super) fn write(
        &self,
        mut read: impl FnMut(&mut [u8], u64) -> Result<usize>,
        buffer: &mut [u8],
        out: &mut impl Write,
    ) -> io::Result<Option<Error>> {
        if let Some(map) = &self.map {
            out.write_all(map)?;
        }
        let mut failed = None;
        for run in &self.runs {
            let mut at_bytes = run.start;
            while at_bytes < run.end {
                let left = usize::try_from(run.end - at_bytes).unwrap_or(usize::MAX);
                let len = left.min(buffer.len());
                let part = buffer.get_mut(..len).unwrap_or_default();
                let error = fill(&mut read, part, at_bytes);
                failed = failed.or(error);
                out.write_all(part)?;
                at_bytes += len as u64;
            }
        }
        pad(out, self.data_bytes())?;
        Ok(failed)
    }
}

/// Reads `part` from an offset. If that fails, reads parts of [`RETRY_BYTES`]. Those that cannot be read become zeros, and the
/// first error is returned.
fn fill(
    read: &mut impl FnMut(&mut [u8], u64) -> Result<usize>,
    part: &mut [u8],
    mut at_bytes: u64,
) -> Option<Error> {
    match read(part, at_bytes) {
        Ok(len) => {
            part.get_mut(len..).unwrap_or_default().fill(0);
            return None;
        }
        Err(error) if part.len() <= RETRY_BYTES => {
            part.fill(0);
            return Some(error);
        }
        Err(_) => {}
    }
    let mut failed = None;
    for step in part.chunks_mut(RETRY_BYTES) {
        let error = fill(read, step, at_bytes);
        failed = failed.or(error);
        at_bytes += step.len() as u64;
    }
    failed
}

/// Fills the smallest holes until there are at most [`MAX_RUNS`] runs. Of holes with the same length, the first are filled.
fn limit(runs: &mut Vec<Range<u64>>) {
    let Some(last_filled) = runs.len().checked_sub(MAX_RUNS + 1) else {
        return;
    };
    let hole_bytes = |last: &Range<u64>, run: &Range<u64>| run.start.saturating_sub(last.end);
    let pairs = runs.iter().zip(runs.iter().skip(1));
    let mut holes: Vec<u64> = pairs.map(|(last, run)| hole_bytes(last, run)).collect();
    let (smaller, &mut max_bytes, _) = holes.select_nth_unstable(last_filled);
    let equal = smaller.iter().filter(|&&bytes| bytes == max_bytes).count();
    let mut left = equal + 1;
    runs.dedup_by(|run, last| {
        let bytes = hole_bytes(last, run);
        if bytes > max_bytes || (bytes == max_bytes && left == 0) {
            return false;
        }
        left -= usize::from(bytes == max_bytes);
        last.end = run.end;
        true
    });
}

/// Returns the map of a file of `size_bytes` with data in `runs`. If the file ends in a hole, the last run is empty, and at
/// the end of the file.
fn map(runs: &[Range<u64>], size_bytes: u64) -> Vec<u8> {
    let has_data_at_end = runs.last().is_some_and(|run| run.end == size_bytes);
    let end = (!has_data_at_end).then_some(size_bytes..size_bytes);
    let mut map = format!("{}\n", runs.len() + usize::from(end.is_some())).into_bytes();
    for run in runs.iter().chain(&end) {
        let line = format!("{}\n{}\n", run.start, run.end.saturating_sub(run.start));
        map.extend_from_slice(line.as_bytes());
    }
    let block = usize::try_from(BLOCK_BYTES).unwrap_or(1);
    map.resize(map.len().next_multiple_of(block), 0);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the content of a file with one run of data.
    fn content(run: Range<u64>, size_bytes: u64) -> Content {
        Content::new(iter::once(run).collect(), size_bytes)
    }

    #[test]
    fn file_with_a_large_hole_is_sparse() {
        let sparse = content(4096..8192, 100_000);
        let map = sparse.map.as_ref().unwrap();
        assert!(map.starts_with(b"2\n4096\n4096\n100000\n0\n\0"));
        assert_eq!(sparse.data_bytes(), 512 + 4096);
        // The hole saves less than the map and the records take.
        assert!(!content(1024..8192, 8192).is_sparse());
        assert!(!Content::new(Vec::new(), 0).is_sparse());
        let empty = Content::new(Vec::new(), 1 << 40);
        assert_eq!(empty.data_bytes(), 512);
    }

    /// Returns runs of one block each, with holes of these lengths between them. All offsets in the map have as many
    /// digits as those of the largest files.
    fn runs(holes: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        let mut at_bytes = 15 << 40;
        let mut runs: Vec<_> = iter::once(at_bytes..at_bytes + 4096).collect();
        for hole_bytes in holes {
            at_bytes += 4096 + hole_bytes;
            runs.push(at_bytes..at_bytes + 4096);
        }
        runs
    }

    #[test]
    fn map_with_too_many_runs_keeps_the_large_holes() {
        const SMALL_HOLES: usize = 100;
        let holes = (0..MAX_RUNS).map(|index| if index < SMALL_HOLES { 4096 } else { 61_440 });
        let mut runs = runs(holes);
        let data_bytes =
            |runs: &[Range<u64>]| -> u64 { runs.iter().map(|run| run.end - run.start).sum() };
        let before_bytes = data_bytes(&runs);
        limit(&mut runs);
        assert_eq!(runs.len(), MAX_RUNS);
        assert_eq!(data_bytes(&runs), before_bytes + 4096);
        assert!(map(&runs, 16 << 40).len() < 1 << 20);
        limit(&mut runs);
        assert_eq!(runs.len(), MAX_RUNS);
    }

    #[test]
    fn fewest_equal_holes_are_filled() {
        const HOLE_BYTES: u64 = 1 << 20;
        const LARGER: usize = 7;
        let holes = (0..MAX_RUNS + 10).map(|index| match index {
            5 | 30_000 => 4096,
            index if index % 1000 == 0 && index / 1000 < LARGER => 2 * HOLE_BYTES,
            _ => HOLE_BYTES,
        });
        let mut runs = runs(holes.clone());
        limit(&mut runs);
        let mut left: Vec<u64> = (runs.windows(2))
            .map(|pair| pair[1].start - pair[0].end)
            .collect();
        left.sort_unstable();
        let mut expected: Vec<u64> = holes.collect();
        expected.sort_unstable();
        // The two smallest holes and nine of those with the most frequent length are filled.
        assert_eq!(left, expected[11..]);
    }

    #[test]
    fn only_parts_that_cannot_be_read_are_zeros() {
        let content = content(0..20_000, 20_000);
        let read = |buffer: &mut [u8], at_bytes: u64| {
            let end_bytes = at_bytes + buffer.len() as u64;
            if at_bytes < 6000 && end_bytes > 5000 {
                return Err(Error::NotFound(format!("a block at {at_bytes}")));
            }
            buffer.fill(7);
            Ok(buffer.len())
        };
        let mut out = Vec::new();
        let failed = content.write(read, &mut [0; 10_000], &mut out).unwrap();
        assert!(failed.is_some_and(|error| error.to_string().contains("a block at 4096")));
        assert_eq!(out.len(), 20_480);
        for (at, &byte) in out.iter().enumerate() {
            let is_read = at < 4096 || (8192..20_000).contains(&at);
            assert_eq!(byte, if is_read { 7 } else { 0 }, "{at}");
        }
    }
}
