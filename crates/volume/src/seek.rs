//! Finds data and holes in a file, for `SEEK_DATA` and `SEEK_HOLE`.
//!
//! Model: `ext4_seek_data` and `ext4_seek_hole`. Dirty blocks count as data, even if they are not
//! mapped yet.

use crate::Result;
use crate::live::Inodes;
use larder_ext4::Inode;
use std::ops::Range;

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
