//! Files, and the numbers of files and readers.

/// Size of a page.
pub const PAGE_BYTES: u64 = 4096;

/// The location of a file on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Size of the file.
    pub size_bytes: u64,
    /// Device offset of the first byte of the file. The file is contiguous.
    pub device_offset_bytes: u64,
}

/// A file of a [`Simulator`](super::Simulator).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(super) u32);

impl FileId {
    /// Returns the index of the file in tables of all files.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A reader of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReaderId(pub(super) u32);
