//! One step of a sequence.

use larder::Fallocate;
use std::fmt;

/// A file of the image's root directory, by number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FileNo(pub u8);

/// The file that takes whatever space is left.
pub const FILLER: FileNo = FileNo(4);

/// All files, the filler last.
pub const FILES: [FileNo; 5] = [FileNo(0), FileNo(1), FileNo(2), FileNo(3), FILLER];

impl FileNo {
    /// Its place in [`FILES`].
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Its name.
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
    /// Writes; the content shows the step's number and the offset.
    Write {
        /// The file.
        file: FileNo,
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u32,
        /// With `O_DIRECT`, where the target has it.
        direct: bool,
    },
    /// Sets the size.
    Truncate {
        /// The file.
        file: FileNo,
        /// To this.
        size_bytes: u64,
    },
    /// Allocates, zeroes, removes or moves a range. A move that the file is too short for is left out.
    Range {
        /// The file.
        file: FileNo,
        /// Which of it.
        mode: Fallocate,
        /// The range's start.
        offset_bytes: u64,
        /// Its length.
        len_bytes: u64,
    },
    /// Copies. Ranges that overlap are left out.
    Copy {
        /// From this file.
        from: FileNo,
        /// From here.
        from_bytes: u64,
        /// Into this file.
        to: FileNo,
        /// To here.
        to_bytes: u64,
        /// At most so much.
        len_bytes: u64,
    },
    /// Appends to [`FILLER`] until nothing more fits.
    Fill,
    /// Cuts so many bytes off [`FILLER`].
    Free(u64),
    /// Removes the file and makes an empty one of its name.
    Remove(FileNo),
    /// Makes the file durable.
    Sync(FileNo),
    /// Makes everything durable.
    SyncAll,
    /// Drops the file's content from all caches, and compares it.
    Evict(FileNo),
    /// Unmounts, mounts, and compares everything.
    Remount,
}
