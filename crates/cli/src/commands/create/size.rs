//! The size of an image that fits its content.
//!
//! The file system is made larger than the estimate of its content, in a sparse file. When it is complete, resize2fs
//! shrinks it, which moves only what is near the end. Each block group has a fixed number of inodes. With just enough
//! inodes for the files, no group could be removed, so there are more inodes.
//!
//! The estimate leaves out attributes, long names and the mappings of fragmented files. If the content does not fit, the
//! file system is made again, with twice the capacity.

use super::archive::{Archive, Entry, Kind};
use super::source::of_source;
use larder::fs::copy::{Rules, nonzero_bytes};
use larder_console::Result;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The size of a block, in bytes.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// The size of an inode, in bytes.
pub(super) const INODE_BYTES: u64 = 256;

/// The size of a block group, in bytes.
const GROUP_BYTES: u64 = 8 * BLOCK_BYTES * BLOCK_BYTES;
/// The maximum number of inodes of a block group, minus those that rounding can cost.
const GROUP_INODES: u64 = 8 * BLOCK_BYTES - 16;
/// The inodes that each file system has, and a few more.
const RESERVED_INODES: u64 = 64;
/// The maximum size of files that are not read for an exact estimate, in bytes.
const MAX_UNREAD_BYTES: u64 = 1 << 20;
/// The space for descriptors of groups and similar metadata, in bytes.
const METADATA_BYTES: u64 = 16 << 20;

/// The estimated content of a file system.
#[derive(Debug, Default)]
pub(super) struct Content {
    files: u64,
    bytes: u64,
    /// Hashes of the paths of the directories that were counted.
    directories: HashSet<u64>,
    /// The device and inode numbers of the files with several hard links that were counted.
    linked: HashSet<(u64, u64)>,
}

/// The size and the number of inodes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    pub size_bytes: u64,
    pub inodes: u64,
}

impl Capacity {
    /// Returns twice the capacity.
    pub(super) fn doubled(self) -> Self {
        Self {
            size_bytes: self.size_bytes.saturating_mul(2),
            inodes: self.inodes.saturating_mul(2),
        }
    }
}

impl Content {
    /// Adds the files of `archive`.
    pub(super) fn add_archive(&mut self, archive: &mut Archive) -> Result<()> {
        while let Some(entry) = archive.next_entry()? {
            self.add_entry(&entry);
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: &Entry) {
        self.add_directories(&entry.path, entry.kind == Kind::Directory);
        if !matches!(entry.kind, Kind::Directory | Kind::HardLink { .. }) {
            self.files += 1;
        }
        if let Kind::File { runs, .. } = &entry.kind {
            for run in runs {
                self.add_bytes(run.len_bytes);
            }
        }
    }

    /// Adds the directories of `path`, also those without entries of their own, which are created.
    fn add_directories(&mut self, path: &[u8], is_directory: bool) {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let mut hasher = DefaultHasher::new();
        let end = is_directory.then_some(b'/');
        for byte in path.iter().copied().chain(end) {
            if byte == b'/' && self.directories.insert(hasher.finish()) {
                self.files += 1;
                self.add_bytes(BLOCK_BYTES);
            }
            hasher.write_u8(byte);
        }
    }

    /// Adds the files below the directory `root` of the host, except those that `rules` exclude. If the estimate must be
    /// `exact`, it depends only on the content, not on the space that files take on the host.
    pub(super) fn add_directory(
        &mut self,
        root: &Path,
        rules: &dyn Rules,
        exact: bool,
    ) -> Result<()> {
        let mut left = vec![root.to_owned()];
        while let Some(directory) = left.pop() {
            let failed = |error: io::Error| of_source(&directory, &error);
            self.files += 1;
            self.add_bytes(BLOCK_BYTES);
            for entry in fs::read_dir(&directory).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                if rules.excludes(entry.file_name().as_bytes()) {
                    continue;
                }
                let metadata = entry.metadata().map_err(failed)?;
                if metadata.is_dir() {
                    left.push(entry.path());
                    continue;
                }
                let identity = (metadata.dev(), metadata.ino());
                if metadata.nlink() > 1 && !self.linked.insert(identity) {
                    continue;
                }
                self.files += 1;
                if metadata.is_file() && exact {
                    let bytes = content_bytes(&entry.path(), metadata.len());
                    let failed = |error: io::Error| of_source(&entry.path(), &error);
                    self.add_bytes(bytes.map_err(failed)?);
                } else if metadata.is_file() {
                    let stored_bytes = metadata.blocks().saturating_mul(512);
                    // A compressed file of the host takes less space than its content.
                    self.add_bytes(metadata.len().min(stored_bytes.saturating_mul(2)));
                }
            }
        }
        Ok(())
    }

    fn add_bytes(&mut self, bytes: u64) {
        let whole = bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        self.bytes = self.bytes.saturating_add(whole);
    }

    /// Returns the capacity of a file system in which the content fits, and which can be shrunk afterwards.
    pub(super) fn capacity(&self) -> Capacity {
        let needed = self.files.saturating_add(RESERVED_INODES);
        let least_bytes = self
            .bytes
            .saturating_add(needed.saturating_mul(INODE_BYTES));
        // At least this number of groups remains after the image is shrunk.
        let groups = (least_bytes / GROUP_BYTES)
            .max(needed.div_ceil(GROUP_INODES))
            .max(1);
        let inodes_of_group = needed.div_ceil(groups);
        let base_bytes = least_bytes
            .saturating_add(least_bytes / 8)
            .saturating_add(journal_bytes(least_bytes))
            .saturating_add(METADATA_BYTES)
            .max(
                (groups - 1)
                    .saturating_mul(GROUP_BYTES)
                    .saturating_add(METADATA_BYTES),
            );
        let mut capacity = Capacity {
            size_bytes: base_bytes,
            inodes: needed,
        };
        // More groups have more inodes. These take space, which can require another group.
        for _ in 0..3 {
            let groups = capacity.size_bytes.div_ceil(GROUP_BYTES);
            capacity.inodes = inodes_of_group.saturating_mul(groups);
            let more_bytes = capacity
                .inodes
                .saturating_sub(needed)
                .saturating_mul(INODE_BYTES);
            let size_bytes = base_bytes.saturating_add(more_bytes);
            capacity.size_bytes = size_bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        }
        capacity
    }

    /// Returns the size of the journal that suits the content, in bytes.
    pub(super) fn journal_bytes(&self) -> u64 {
        journal_bytes(self.bytes.max(SMALLEST_WITH_JOURNAL_BYTES))
    }
}

/// Returns an estimate of the bytes that the content of the file at `path`, of `len_bytes`, takes in an image. Only large
/// files are read.
fn content_bytes(path: &Path, len_bytes: u64) -> io::Result<u64> {
    if len_bytes <= MAX_UNREAD_BYTES {
        return Ok(len_bytes);
    }
    // Another process may have replaced the file by a link or a FIFO.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    nonzero_bytes(&File::from(file), len_bytes, BLOCK_BYTES)
}

/// The size of the smallest file system that has a journal, in bytes.
const SMALLEST_WITH_JOURNAL_BYTES: u64 = 8 << 20;

/// Returns the size of the journal of a file system of `size_bytes`, in bytes. It is that of mke2fs.
pub(super) fn journal_bytes(size_bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    match size_bytes / MIB {
        0..8 => 0,
        8..128 => 4 * MIB,
        128..1024 => 16 * MIB,
        1024..2048 => 32 * MIB,
        2048..16_384 => 64 * MIB,
        16_384..32_768 => 128 * MIB,
        32_768..65_536 => 256 * MIB,
        65_536..131_072 => 512 * MIB,
        _ => 1024 * MIB,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(files: u64, bytes: u64) -> Capacity {
        Content {
            files,
            bytes,
            ..Content::default()
        }
        .capacity()
    }

    #[test]
    fn capacity_exceeds_the_content() {
        for (files, bytes) in [(0, 0), (10, 1 << 20), (10_000, 200 << 20), (5, 1 << 40)] {
            let capacity = capacity(files, bytes);
            assert!(capacity.inodes > files, "{capacity:?}");
            let least_bytes = bytes + capacity.inodes * INODE_BYTES;
            assert!(capacity.size_bytes > least_bytes, "{capacity:?}");
            assert!(
                capacity.size_bytes < 2 * least_bytes + (64 << 20),
                "{capacity:?}"
            );
        }
    }

    #[test]
    fn groups_have_at_most_the_inodes_that_a_bitmap_describes() {
        let capacity = capacity(1_000_000, 1 << 20);
        let groups = capacity.size_bytes.div_ceil(GROUP_BYTES);
        assert!(
            capacity.inodes.div_ceil(groups) <= 8 * BLOCK_BYTES,
            "{capacity:?}"
        );
    }
}
