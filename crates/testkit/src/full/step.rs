//! One step of a sequence.

use larder::Fallocate;
use std::fmt;

/// A file of the image's root directory, by number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FileNo(pub u8);

/// The file that uses the remaining space.
pub const FILLER: FileNo = FileNo(4);

/// All files, the filler last.
pub const FILES: [FileNo; 5] = [FileNo(0), FileNo(1), FileNo(2), FileNo(3), FILLER];

impl FileNo {
    /// Returns its index in [`FILES`].
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["a", "b", "c", "d", "filler"][self.index()]
    }
}

impl fmt::Debug for FileNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes. The content encodes the number of the step and the offset.
    Write {
        /// The file.
        file: FileNo,
        /// The offset.
        offset_bytes: u64,
        /// The length.
        len_bytes: u32,
        /// Whether to use `O_DIRECT`, if the target supports it.
        direct: bool,
    },
    /// Sets the size.
    Truncate {
        /// The file.
        file: FileNo,
        /// The new size.
        size_bytes: u64,
    },
    /// Allocates, zeroes, punches or moves a range. A move is skipped if the file is too short.
    Range {
        /// The file.
        file: FileNo,
        /// The mode.
        mode: Fallocate,
        /// The range's start.
        offset_bytes: u64,
        /// Its length.
        len_bytes: u64,
    },
    /// Copies a range. Overlapping ranges are skipped.
    Copy {
        /// The source file.
        from: FileNo,
        /// The offset in the source.
        from_bytes: u64,
        /// The destination file.
        to: FileNo,
        /// The offset in the destination.
        to_bytes: u64,
        /// The maximum length.
        len_bytes: u64,
    },
    /// Appends to [`FILLER`] until nothing more fits.
    Fill,
    /// Truncates [`FILLER`] by this number of bytes.
    Free(u64),
    /// Removes the file and creates an empty one with its name.
    Remove(FileNo),
    /// Makes the file durable.
    Sync(FileNo),
    /// Makes everything durable.
    SyncAll,
    /// Drops the file's content from all caches, and compares it.
    Evict(FileNo),
    /// Unmounts, mounts again, and compares everything.
    Remount,
}
