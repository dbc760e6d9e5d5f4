//! Writes content that is stored in the inode (inline data), and moves it to a block when it no
//! longer fits.
//!
//! Each write changes the inode in one handle, without delayed allocation. Content that no longer
//! fits is also moved in one handle, so that after a crash the content is either in the inode or in
//! the block.

use super::Writer;
use crate::Result;
use crate::live::Live;
use larder_ext4::{Error, FileBlock, MemoryOnly, Privilege};

/// The credits for the inode, its attributes and the superblock. Mapping a block needs further
/// credits.
const CREDITS: u32 = 8;

impl Writer {
    /// Writes `buf` at `offset_bytes` of a file whose content is stored in the inode. If the
    /// content would no longer fit, moves it to a block, writes nothing of `buf`, and returns
    /// false. The caller must hold `rw` exclusively.
    pub(super) fn write_inline(
        &self,
        live: &Live<'_>,
        (buf, offset_bytes): (&[u8], u64),
        privilege: Privilege,
    ) -> Result<bool> {
        let inode = live.inode()?;
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let end = start.saturating_add(buf.len());
        let size = usize::try_from(inode.size_bytes()).unwrap_or(usize::MAX);
        if end.max(size) > self.fs().inline_capacity(&inode)? {
            self.convert_inline_data(live, privilege)?;
            return Ok(false);
        }
        let mut data = self.fs().inline_data(&inode)?;
        data.resize(end.max(size), 0);
        data[start..end].copy_from_slice(buf);
        self.set_inline(live, &data)?;
        Ok(true)
    }

    /// Sets the size of a file whose content is stored in the inode to `size_bytes`. If the content
    /// would no longer fit, moves it to a block, does not change the size, and returns false. The
    /// caller must hold `rw` exclusively.
    pub(super) fn resize_inline(&self, live: &Live<'_>, size_bytes: u64) -> Result<bool> {
        let inode = live.inode()?;
        let size = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        if size > self.fs().inline_capacity(&inode)? {
            self.convert_inline_data(live, Privilege::Ordinary)?;
            return Ok(false);
        }
        let mut data = self.fs().inline_data(&inode)?;
        data.resize(size, 0);
        self.set_inline(live, &data)?;
        Ok(true)
    }

    fn set_inline(&self, live: &Live<'_>, data: &[u8]) -> Result<()> {
        live.change(CREDITS, |handle, inode| {
            self.stamp(inode);
            Ok(self.fs().set_inline_data(handle, inode, data)?)
        })
    }

    /// Moves the content from the inode to a block, which is allocated with `privilege`. The caller must
    /// hold `rw` exclusively.
    pub(super) fn convert_inline_data(&self, live: &Live<'_>, privilege: Privilege) -> Result<()> {
        // This function may write the content to the device.
        MemoryOnly::check_may_wait()?;
        let clusters = u64::from(!self.fs().inline_data(&live.inode()?)?.is_empty());
        let mut reservation = self
            .write_back
            .retry_after_write_back(|| Ok(self.fs().reserve(clusters, privilege)?))?;
        let _exclusive = live.writeback.lock();
        let _map = live.change_mapping()?;
        let (fs, block_bytes) = (self.fs(), self.inodes.block_bytes());
        let inode = live.inode()?;
        let credits = fs.map_credits(&inode, 1).saturating_add(CREDITS);
        let mut block = fs.inline_data(&inode)?;
        if block.is_empty() {
            return live.change(credits, |handle, inode| {
                fs.remove_inline_data(handle, inode)?;
                Ok(())
            });
        }
        let len = usize::try_from(block_bytes).unwrap_or(0);
        if block.len() > len {
            return Err(Error::FileTooLarge(live.ino()).into());
        }
        block.resize(len, 0);
        let empty = fs.without_inline_data(&inode);
        let claim = fs.claim_for(&empty, FileBlock(0), 1, Some(&mut reservation))?;
        if !fs.journals_content() {
            // Like all content, this block is written before it is mapped, and before the handle is
            // opened.
            let offset_bytes = claim.start().0 * block_bytes;
            self.write_back.write_to_device(&block, offset_bytes)?;
        }
        live.change(credits, |handle, inode| {
            fs.remove_inline_data(handle, inode)?;
            if fs.journals_content() {
                handle.create(claim.start(), live.ino(), |bytes| {
                    bytes.copy_from_slice(&block);
                    Ok(())
                })?;
            }
            Ok(fs.map_claim(handle, inode, FileBlock(0), claim.clone(), true)?)
        })
    }
}
