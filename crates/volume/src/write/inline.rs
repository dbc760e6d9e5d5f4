//! Writing content that lies in the inode, and what outgrows it.
//!
//! Each write is a handle: there is nothing to delay. What no longer fits moves to a block in one
//! handle, together with its content, so that no crash finds a file with neither.

use crate::Result;
use crate::live::Live;
use crate::read::Reader;
use larder_ext4::{Error, FileBlock, Inode};

/// Credits beside those of a block's mapping: the inode, its attributes, the superblock.
const CREDITS: u32 = 8;

impl Reader {
    /// Writes `buf` at `offset_bytes` of a file whose content lies in the inode. False if it does not
    /// fit: the file has blocks then, and nothing of `buf` is written. With `rw` held exclusively.
    pub(super) fn write_inline(
        &self,
        live: &Live<'_>,
        buf: &[u8],
        offset_bytes: u64,
    ) -> Result<bool> {
        let inode = live.inode()?;
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let end = start.saturating_add(buf.len());
        let size = usize::try_from(inode.size_bytes()).unwrap_or(usize::MAX);
        if end.max(size) > self.inodes.fs.inline_capacity(&inode)? {
            self.outgrow_inode(live)?;
            return Ok(false);
        }
        let mut data = self.inodes.fs.inline_data(&inode)?;
        data.resize(end.max(size), 0);
        data[start..end].copy_from_slice(buf);
        self.set_inline(live, &data)?;
        Ok(true)
    }

    /// Makes a file whose content lies in the inode `size_bytes` long. False as with
    /// [`Reader::write_inline`].
    pub(super) fn resize_inline(&self, live: &Live<'_>, size_bytes: u64) -> Result<bool> {
        let inode = live.inode()?;
        let size = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        if size > self.inodes.fs.inline_capacity(&inode)? {
            self.outgrow_inode(live)?;
            return Ok(false);
        }
        let mut data = self.inodes.fs.inline_data(&inode)?;
        data.resize(size, 0);
        self.set_inline(live, &data)?;
        Ok(true)
    }

    fn set_inline(&self, live: &Live<'_>, data: &[u8]) -> Result<()> {
        let mut handle = self.inodes.fs.start(CREDITS)?;
        let mut inode = live.inode()?;
        self.stamp(&mut inode);
        self.inodes
            .fs
            .set_inline_data(&mut handle, &mut inode, data)?;
        live.publish(&handle, &inode);
        handle.stop();
        Ok(())
    }

    /// Moves the content out of the inode. With `rw` held exclusively.
    pub(super) fn outgrow_inode(&self, live: &Live<'_>) -> Result<()> {
        let _alone = live.writeback.lock();
        let _map = live.map.write();
        let mut inode = live.inode()?;
        let credits = self
            .inodes
            .fs
            .map_credits(&inode, 1)
            .saturating_add(CREDITS);
        let mut handle = self.inodes.fs.start(credits)?;
        let data = self.inodes.fs.remove_inline_data(&mut handle, &mut inode)?;
        if !data.is_empty() {
            let claim = self.inodes.fs.claim_for(&inode, FileBlock(0), 1, None)?;
            let mut block = data;
            let block_bytes = usize::try_from(self.inodes.block_bytes()).unwrap_or(0);
            if block.len() > block_bytes {
                return Err(Error::FileTooLarge(live.ino()).into());
            }
            block.resize(block_bytes, 0);
            if self.journals_content {
                handle.create(claim.start(), live.ino(), |bytes| {
                    bytes.copy_from_slice(&block);
                    Ok(())
                })?;
            } else {
                self.device
                    .write_at(&block, claim.start().0 * self.inodes.block_bytes())
                    .map_err(|error| self.content_failed(error))?;
            }
            self.inodes
                .fs
                .map_claim(&mut handle, &mut inode, FileBlock(0), claim, true)?;
        }
        self.inodes.fs.write_inode(&mut handle, &inode)?;
        live.publish(&handle, &inode);
        handle.stop();
        Ok(())
    }

    /// Says that content and inode are changed now.
    pub(super) fn stamp(&self, inode: &mut Inode) {
        let now = self.clock.now();
        inode.set_mtime(now);
        inode.set_ctime(now);
    }
}
