//! Finds data and holes in a file (`SEEK_DATA` and `SEEK_HOLE`), and the places on the disk where its content is
//! stored.
//!
//! Model: `ext4_seek_data`, `ext4_seek_hole`, and `ext4_fiemap` for the places. Dirty blocks count as data, even if they
//! are not mapped yet.

use crate::live::Inodes;
use crate::{Result, Volume};
use larder_ext4::{FileBlock, Ino, Inode, MappingKind};
use std::ops::Range;

/// The maximum length of a run, in blocks.
const MAX_RUN_BLOCKS: u32 = 1 << 20;

/// A run of bytes of a file that are stored at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRun {
    /// The offset in the file at which the run ends. It can be past the end of the file.
    pub end_bytes: u64,
    /// Where the run is stored.
    pub place: RunPlace,
}

/// Where a run of bytes of a file is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPlace {
    /// Nowhere: the bytes are zeros.
    Hole,
    /// On the disk.
    Disk {
        /// The offset of the first byte, counted from the start of the disk. It includes the offset of the file system
        /// ([`OpenOptions::offset_bytes`](crate::OpenOptions::offset_bytes)).
        offset_bytes: u64,
        /// Whether the disk is an overlay that has never changed these bytes. If so, the base of the overlay has the
        /// same bytes at the same offset.
        is_unchanged: bool,
    },
    /// The place is not known: the content is in the inode, or the volume is open for writing.
    Unknown,
}

impl Volume {
    /// Returns the run of bytes of the regular file `ino` that begins at `offset_bytes`, which must be before the end of the
    /// file. A run can end before the place changes. Reads metadata, but no content.
    ///
    /// # Errors
    /// An error of the image.
    pub fn file_run(&self, ino: Ino, offset_bytes: u64) -> Result<FileRun> {
        let inode = self.inode(ino)?;
        let log2 = self.inodes.block_size_log2();
        let start = match u32::try_from(offset_bytes >> log2) {
            Ok(start) if !self.is_read_write() && !inode.has_inline_data() => start,
            _ => {
                return Ok(FileRun {
                    end_bytes: inode.size_bytes().max(offset_bytes.saturating_add(1)),
                    place: RunPlace::Unknown,
                });
            }
        };
        let mapping = self.fs().map(&inode, FileBlock(start), MAX_RUN_BLOCKS)?;
        let start_bytes = u64::from(start) << log2;
        let mut end_bytes = start_bytes + (u64::from(mapping.blocks) << log2);
        let place = match mapping.kind {
            MappingKind::Hole | MappingKind::Unwritten(_) => RunPlace::Hole,
            MappingKind::Written(block) => {
                let at_bytes = (block.0 << log2) + (offset_bytes - start_bytes);
                let (disk_bytes, unchanged_bytes) =
                    self.origin_of(at_bytes, end_bytes - offset_bytes);
                if unchanged_bytes > 0 {
                    end_bytes = offset_bytes + unchanged_bytes;
                }
                RunPlace::Disk {
                    offset_bytes: disk_bytes,
                    is_unchanged: unchanged_bytes > 0,
                }
            }
        };
        Ok(FileRun { end_bytes, place })
    }
}

impl Inodes {
    /// Returns the offset of the first byte of data at or after `offset_bytes`, or `None` if only a
    /// hole follows.
    pub(crate) fn seek_data(&self, inode: &Inode, offset_bytes: u64) -> Result<Option<u64>> {
        self.with_mapping(inode, |inode| {
            let mapped = self.fs.seek_data(inode, offset_bytes)?;
            let log2 = self.block_size_log2();
            let dirty = self
                .dirty_run_from(inode, offset_bytes >> log2)
                .map(|run| offset_bytes.max(run.start << log2))
                .filter(|start| *start < inode.size_bytes());
            Ok(mapped.into_iter().chain(dirty).min())
        })
    }

    /// Returns the offset of the first byte of a hole at or after `offset_bytes`. The end of the
    /// file counts as a hole. Returns `None` if `offset_bytes` is at or past the end.
    pub(crate) fn seek_hole(&self, inode: &Inode, offset_bytes: u64) -> Result<Option<u64>> {
        self.with_mapping(inode, |inode| {
            let log2 = self.block_size_log2();
            let mut at = offset_bytes;
            loop {
                let hole = match self.fs.seek_hole(inode, at)? {
                    Some(hole) if hole < inode.size_bytes() => hole,
                    // There is no hole before the end of the file.
                    end if at == offset_bytes => return Ok(end),
                    _ => return Ok(Some(inode.size_bytes())),
                };
                match self.dirty_run_from(inode, hole >> log2) {
                    Some(run) if run.contains(&(hole >> log2)) => at = run.end << log2,
                    _ => return Ok(Some(hole)),
                }
            }
        })
    }

    /// Returns the run of dirty blocks of `inode` that contains `block`. If there is none, returns
    /// the next run after `block`.
    fn dirty_run_from(&self, inode: &Inode, block: u64) -> Option<Range<u64>> {
        let live = self.in_use(self.live.as_ref()?, inode.ino());
        live.state().dirty.blocks.run_from(block)
    }
}
