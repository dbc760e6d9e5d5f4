//! Reads of the big file without a mount: by the library, or by pread(2) on the extents of the file.
//!
//! Each of the concurrent reads has its own thread ([`Pattern::read`]).

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use larder::{Advice, OpenFile, OpenOptions, Volume};
use serde::{Deserialize, Serialize};

use crate::device_path::extents::{Extents, StoredFile};
use crate::evict::make_cold;
use crate::passes::median_pass;
use crate::readahead::case::INTERLEAVED_READERS;
use crate::readahead::plan::REQUEST_BYTES;
use crate::readahead::streams;
use crate::tree::{BIG_FILE, PAGE_BYTES};
use crate::work::{self, ReadAt, Reading};

/// The command of this crate's binary that runs a [`Job`].
pub const WORKER: &str = "read-image";

/// What to read.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The image.
    pub image: PathBuf,
    /// The size of the big file.
    pub file_bytes: u64,
    /// How the file is opened.
    pub source: Source,
    /// How it is read.
    pub pattern: Pattern,
}

/// How the file is opened.
#[derive(Debug, Serialize, Deserialize)]
pub enum Source {
    /// By the library with its defaults.
    Volume,
    /// By the library with direct I/O.
    DirectVolume,
    /// As these extents of the image, by pread(2).
    Extents(Extents),
}

/// How the file is read.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Pattern {
    /// Random pages.
    Random {
        /// Determines the pages.
        run: u64,
        /// The number of pages.
        reads: u32,
        /// The number of pages that are read at once.
        at_once: u32,
    },
    /// The whole file, in regions that are read at once.
    Interleaved,
    /// The whole file, from start to end.
    Sequential,
}

impl Job {
    /// Opens the image, and reads it in passes, each of which starts cold.
    pub fn run(&self) -> Result<Reading> {
        if let Source::Extents(extents) = &self.source {
            let open = || {
                Ok(StoredFile {
                    image: File::open(&self.image)?,
                    extents: extents.clone(),
                })
            };
            return median_pass(|| {
                make_cold(&self.image)?;
                self.pattern.read(open, self.file_bytes)
            });
        }
        let mut options = OpenOptions::default();
        options.direct_device = matches!(self.source, Source::DirectVolume);
        if let Pattern::Interleaved = self.pattern {
            // The kernel's cache is not limited either. With the default cache, windows that extend past
            // the end of a region are evicted before the reader of the next region uses them.
            options.cache_size_bytes = 2 * self.file_bytes;
        }
        let volume = Volume::open(&self.image, &options)?;
        let ino = volume.resolve(BIG_FILE.as_bytes())?;
        let open = || {
            let file = volume.open_file(ino)?;
            if let Pattern::Random { .. } = self.pattern {
                file.advise(0..self.file_bytes, Advice::Random);
            }
            Ok(file)
        };
        median_pass(|| {
            volume
                .open_file(ino)?
                .advise(0..self.file_bytes, Advice::DontNeed);
            make_cold(&self.image)?;
            self.pattern.read(open, self.file_bytes)
        })
    }
}

impl Pattern {
    /// Reads the file that `open` opens, which has `file_bytes` bytes.
    fn read<F: ReadAt>(
        self,
        open: impl Fn() -> Result<F> + Sync,
        file_bytes: u64,
    ) -> Result<Reading> {
        match self {
            Self::Random {
                run,
                reads,
                at_once,
            } => work::random_pages(&open()?, &random_pages(file_bytes, run, reads), at_once),
            Self::Interleaved => {
                let request_bytes = interleaved_request_bytes(file_bytes);
                streams::interleaved(open, file_bytes, INTERLEAVED_READERS, request_bytes, false)
            }
            Self::Sequential => work::sequential_at(&open()?, file_bytes),
        }
    }
}

/// Returns the indices of `reads` different pages of a file of `file_bytes` bytes, or of all its pages if
/// it has fewer. `run` determines the pages and their order.
pub(super) fn random_pages(file_bytes: u64, run: u64, reads: u32) -> Vec<u64> {
    let mut pages = work::shuffled(file_bytes / PAGE_BYTES as u64, run);
    pages.truncate(reads as usize);
    pages
}

/// Returns the size of the requests of interleaved readers, in bytes. It is at most that of a region.
pub(super) fn interleaved_request_bytes(file_bytes: u64) -> u64 {
    REQUEST_BYTES.min(file_bytes / u64::from(INTERLEAVED_READERS))
}

impl ReadAt for OpenFile {
    fn read_exact(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        let len = self.read_at(buf, offset_bytes)?;
        ensure!(
            len == buf.len(),
            "the file ends in a read at {offset_bytes}"
        );
        Ok(())
    }
}
