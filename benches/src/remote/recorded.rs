//! The recorded starts of two programs, and their replay.
//!
//! `scripts/record-starts` recorded the lists. Each line is one read: the size of the file, the offset, the length, and
//! the path. In the image, each file has a whole number of pages.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::tree::{PAGE_BYTES, wrong_pages};

/// The maximum length of a read in the replay: the kernel's own limit of readahead.
const READ_BYTES: u64 = 128 << 10;

named! {
    /// A program whose start was recorded.
    Start {
        /// python3, which imports 26 modules of its library.
        Python: "python",
        /// mariadbd, up to the second query.
        Database: "database",
    }
}

/// One recorded read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    /// The number of the file in [`Recorded::files`].
    file: u32,
    offset_bytes: u64,
    len_bytes: u64,
}

/// The files and the reads of a start.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The path and the size of each file. Its number in the list determines its content.
    pub files: Vec<(&'static str, u64)>,
    reads: Vec<Read>,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// The time of all reads.
    pub seconds: f64,
    /// The time that 99% of the reads do not exceed, in milliseconds.
    pub p99_ms: f64,
    /// Pages that differ from the content of the image.
    pub wrong_pages: u64,
}

impl Start {
    /// Returns what was recorded.
    #[must_use]
    pub fn recorded(self) -> Recorded {
        let text = match self {
            Self::Python => include_str!("python.reads"),
            Self::Database => include_str!("database.reads"),
        };
        let mut recorded = Recorded::default();
        let mut numbers = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.splitn(4, ' ');
            let mut number = || fields.next()?.parse::<u64>().ok();
            let (Some(size), Some(offset_bytes), Some(len_bytes)) = (number(), number(), number())
            else {
                continue;
            };
            let Some(path) = fields.next() else { continue };
            let files = &mut recorded.files;
            let file = *numbers.entry(path).or_insert_with(|| {
                files.push((path, size.next_multiple_of(PAGE_BYTES as u64)));
                u32::try_from(files.len() - 1).unwrap_or(u32::MAX)
            });
            recorded.reads.push(Read {
                file,
                offset_bytes,
                len_bytes,
            });
        }
        recorded
    }

    /// Reads what was recorded, in order, from the files below `folder`. Opens each file when it is read first.
    pub fn replay(self, folder: &Path) -> Result<Replayed> {
        let recorded = self.recorded();
        let mut opened: BTreeMap<u32, File> = BTreeMap::new();
        let mut latencies = Vec::new();
        let mut wrong = 0;
        let mut buf = vec![0; usize::try_from(READ_BYTES)?];
        let started = Instant::now();
        for read in &recorded.reads {
            let (path, _) = recorded.files[read.file as usize];
            let path = folder.join(path);
            let mut began = Instant::now();
            let file = match opened.entry(read.file) {
                Entry::Occupied(opened) => opened.into_mut(),
                Entry::Vacant(new) => {
                    new.insert(File::open(&path).with_context(|| path.display().to_string())?)
                }
            };
            let (mut at, end) = (read.offset_bytes, read.offset_bytes + read.len_bytes);
            while at < end {
                let len = usize::try_from(READ_BYTES.min(end - at))?;
                file.read_exact_at(&mut buf[..len], at)?;
                latencies.push(began.elapsed().as_secs_f64());
                wrong += wrong_pages_at(&buf[..len], read.file, at);
                at += len as u64;
                began = Instant::now();
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        latencies.sort_unstable_by(f64::total_cmp);
        let rank = (latencies.len() * 99).div_ceil(100).max(1);
        Ok(Replayed {
            seconds,
            p99_ms: latencies.get(rank - 1).copied().unwrap_or_default() * 1e3,
            wrong_pages: wrong,
        })
    }
}

/// Returns the number of wrong pages among those that begin in `bytes`, which begin at `offset_bytes` of a file. A page
/// is identified by the number at its start. It is not checked if `bytes` does not contain this whole number.
fn wrong_pages_at(bytes: &[u8], file: u32, offset_bytes: u64) -> u64 {
    let page = offset_bytes.div_ceil(PAGE_BYTES as u64);
    let skipped = usize::try_from(page * PAGE_BYTES as u64 - offset_bytes).unwrap_or(usize::MAX);
    let from_page = bytes.get(skipped..).unwrap_or_default();
    let rest = from_page.len() % PAGE_BYTES;
    let checked = if rest < 8 {
        from_page.len() - rest
    } else {
        from_page.len()
    };
    wrong_pages(&from_page[..checked], file, page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::write_pages;
    use std::collections::BTreeSet;

    /// Returns the number of bytes that are read, without repetitions.
    fn distinct_bytes(recorded: &Recorded) -> u64 {
        let page = PAGE_BYTES as u64;
        let mut pages = BTreeSet::new();
        for read in &recorded.reads {
            let end = (read.offset_bytes + read.len_bytes).div_ceil(page);
            pages.extend((read.offset_bytes / page..end).map(|index| (read.file, index)));
        }
        pages.len() as u64 * page
    }

    #[test]
    fn recorded_reads_are_inside_their_files() {
        for start in Start::ALL {
            let recorded = start.recorded();
            assert!(recorded.reads.len() > 100 && recorded.files.len() > 50);
            for read in &recorded.reads {
                let (path, size) = recorded.files[read.file as usize];
                assert!(read.len_bytes > 0, "{path}");
                assert!(read.offset_bytes + read.len_bytes <= size, "{path}");
            }
            assert!(distinct_bytes(&recorded) > 10_000_000);
        }
    }

    #[test]
    fn replay_reads_all_and_finds_wrong_pages() {
        let folder = tempfile::tempdir().unwrap();
        let recorded = Start::Python.recorded();
        for (number, (path, size)) in (0..).zip(&recorded.files) {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            write_pages(&path, number, *size).unwrap();
        }
        let replayed = Start::Python.replay(folder.path()).unwrap();
        assert_eq!(replayed.wrong_pages, 0);
        assert!(replayed.seconds > 0.0 && replayed.p99_ms > 0.0);
        let (first, size) = recorded.files[0];
        write_pages(&folder.path().join(first), 99, size).unwrap();
        assert!(Start::Python.replay(folder.path()).unwrap().wrong_pages > 0);
    }

    #[test]
    fn pages_are_checked_from_their_start_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_pages(&path, 3, 4 * PAGE_BYTES as u64).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let wrong = |range: std::ops::Range<usize>, file| {
            wrong_pages_at(&bytes[range.clone()], file, range.start as u64)
        };
        assert_eq!(wrong(0..PAGE_BYTES * 4, 3), 0);
        assert_eq!(wrong(0..PAGE_BYTES * 4, 4), 4);
        assert_eq!(wrong(100..PAGE_BYTES * 4, 4), 3);
        assert_eq!(wrong(1..PAGE_BYTES + 8, 4), 1);
        assert_eq!(wrong(1..PAGE_BYTES + 7, 4), 0);
        assert_eq!(wrong(5..9, 4), 0);
    }
}
