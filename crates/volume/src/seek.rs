//! Where content and holes are: `SEEK_DATA` and `SEEK_HOLE`.
//!
//! Model: `ext4_seek_data` and `ext4_seek_hole`. What is dirty counts as data, mapped or not.

use crate::Result;
use crate::live::Inodes;
use larder_ext4::Inode;
use std::ops::Range;

impl Inodes {
    /// The first byte of data at or behind `offset_bytes`; `None` if only a hole follows.
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

    /// The first byte of a hole at or behind `offset_bytes`, the end of the file counting as one;
    /// `None` behind the end.
    pub(crate) fn seek_hole(&self, inode: &Inode, offset_bytes: u64) -> Result<Option<u64>> {
        self.with_mapping(inode, |inode| {
            let log2 = self.block_size_log2();
            let mut at = offset_bytes;
            loop {
                let hole = match self.fs.seek_hole(inode, at)? {
                    Some(hole) if hole < inode.size_bytes() => hole,
                    // Where it ends, or behind.
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

    /// The dirty run of `inode` that `block` is in, or the next one.
    fn dirty_run_from(&self, inode: &Inode, block: u64) -> Option<Range<u64>> {
        let live = self.in_use(self.live.as_ref()?, inode.ino());
        live.state().dirty.blocks.run_from(block)
    }
}
