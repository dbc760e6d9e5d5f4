//! Where content and holes are: `SEEK_DATA` and `SEEK_HOLE`.
//!
//! Model: `ext4_seek_data` and `ext4_seek_hole`. What is dirty counts as data, mapped or not.

use crate::Result;
use crate::read::Reader;
use larder_ext4::Inode;

impl Reader {
    /// The first byte of data at or behind `offset_bytes`; `None` if only a hole follows.
    pub(crate) fn seek_data(&self, inode: &Inode, offset_bytes: u64) -> Result<Option<u64>> {
        let Some(table) = &self.inodes.live else {
            return Ok(self.inodes.fs.seek_data(inode, offset_bytes)?);
        };
        let live = self.inodes.in_use(table, inode.ino());
        live.with_mapping(|inode| {
            let mapped = self.inodes.fs.seek_data(inode, offset_bytes)?;
            let log2 = self.inodes.block_size_log2();
            let run = live.state().dirty.blocks.run_from(offset_bytes >> log2);
            let dirty = run
                .map(|run| offset_bytes.max(run.start << log2))
                .filter(|start| *start < inode.size_bytes());
            Ok(match (mapped, dirty) {
                (Some(mapped), Some(dirty)) => Some(mapped.min(dirty)),
                (mapped, dirty) => mapped.or(dirty),
            })
        })
    }

    /// The first byte of a hole at or behind `offset_bytes`, the end of the file counting as one;
    /// `None` behind the end.
    pub(crate) fn seek_hole(&self, inode: &Inode, offset_bytes: u64) -> Result<Option<u64>> {
        let Some(table) = &self.inodes.live else {
            return Ok(self.inodes.fs.seek_hole(inode, offset_bytes)?);
        };
        let live = self.inodes.in_use(table, inode.ino());
        live.with_mapping(|inode| {
            let log2 = self.inodes.block_size_log2();
            let mut at = offset_bytes;
            loop {
                let hole = match self.inodes.fs.seek_hole(inode, at)? {
                    Some(hole) if hole < inode.size_bytes() => hole,
                    // Where it ends, or behind.
                    end if at == offset_bytes => return Ok(end),
                    _ => return Ok(Some(inode.size_bytes())),
                };
                let run = live.state().dirty.blocks.run_from(hole >> log2);
                match run {
                    Some(run) if run.contains(&(hole >> log2)) => at = run.end << log2,
                    _ => return Ok(Some(hole)),
                }
            }
        })
    }
}
