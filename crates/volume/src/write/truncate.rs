//! Changes the sizes of files.
//!
//! Model: `ext4_setattr` and `ext4_truncate`. A truncation may need several handles. The inode is
//! recorded as an orphan until the last handle, so that the next mount can finish a truncation that
//! a crash interrupted.

use super::Writer;
use super::names::FIXED;
use crate::Result;
use crate::live::{Live, key};
use larder_cache::page::Lock;
use larder_ext4::{Error, FileBlocks, Handle, Inode, MappingKind};

/// The maximum number of blocks in a file, including holes.
pub(super) const FILE_BLOCKS: u64 = 1 << 32;

/// The credits of a handle that unmaps blocks, in addition to the credits for one block. With these
/// credits, one handle suffices for most files.
const CREDITS: u32 = 64;

/// The credits for the inode, the orphan list or orphan file, and the superblock.
pub(super) const INODE_CREDITS: u32 = 6;

impl Writer {
    /// Sets the size of the file to `size_bytes`. The caller must hold `rw` exclusively.
    pub(crate) fn truncate(&self, live: &Live<'_>, size_bytes: u64) -> Result<()> {
        let inode = live.peek()?;
        self.check_changeable(&inode, FIXED)?;
        if size_bytes > self.fs().max_file_bytes(&inode) {
            return Err(Error::FileTooLarge(live.ino()).into());
        }
        if inode.has_inline_data() && self.resize_inline(live, size_bytes)? {
            return Ok(());
        }
        if size_bytes >= inode.size_bytes() {
            return self.grow(live, size_bytes);
        }
        self.zero_tail(live, size_bytes)?;
        if self.fs().journals_content() {
            // With `data=journal`, the zeros reach the device only through write-back, and they
            // must be durable before the truncation. Write-back also writes the content that is
            // about to be removed.
            self.write_back.write_file(live)?;
        }
        self.shrink(live, size_bytes)
    }

    /// Sets the size of the file to `size_bytes`, which must be at least the present size.
    pub(super) fn grow(&self, live: &Live<'_>, size_bytes: u64) -> Result<()> {
        if size_bytes > live.peek()?.size_bytes() {
            self.zero_tail(live, live.peek()?.size_bytes())?;
        }
        // The size on the image must not include content that is not on the device.
        self.write_back.write_file(live)?;
        live.change(INODE_CREDITS, |handle, inode| {
            self.stamp(inode);
            self.fs().allow_file_size(handle, size_bytes)?;
            inode.set_size_bytes(size_bytes);
            Ok(())
        })
    }

    /// Truncates the file to `size_bytes`, which must be less than the present size. The bytes
    /// after `size_bytes` in the new last block must be zero.
    fn shrink(&self, live: &Live<'_>, size_bytes: u64) -> Result<()> {
        let _exclusive = live.lock_write_back()?;
        let _map = live.change_mapping()?;
        let blocks = size_bytes.div_ceil(self.inodes.block_bytes())..FILE_BLOCKS;
        let before = live.peek()?.size_bytes();
        self.write_tail(live, size_bytes)?;
        let fs = self.fs();
        let credits = self.truncation_credits(live)?;
        let (handle, (inode, left)) = fs.change(credits, |handle| -> Result<_> {
            let mut inode = live.inode()?;
            self.stamp(&mut inode);
            // The size on the image must not include content that is only in memory.
            inode.set_size_bytes(size_bytes.min(inode.size_bytes()));
            fs.add_orphan(handle, &mut inode)?;
            let left = fs.unmap(handle, &mut inode, blocks.clone())?;
            if left.is_empty() {
                self.end_truncation(handle, &mut inode)?;
            }
            fs.write_inode(handle, &inode)?;
            Ok((inode, left))
        })?;
        live.publish_size(&handle, &inode, size_bytes);
        handle.stop();
        live.mark_clean(blocks);
        self.drop_pages(live, size_bytes, before);
        if size_bytes == 0 && before > 0 {
            live.state().is_replaced = true;
        }
        if left.is_empty() {
            return Ok(());
        }
        self.unmap_rest(live, left)
    }

    /// Writes the dirty block that contains the offset `size_bytes`, the new end of the file, if
    /// the block is mapped. The zeros after the end must be on the device before the truncation is
    /// committed. Otherwise, after a crash, the removed content could appear in a file that grows
    /// again. The caller must hold `writeback` and `rw`, so that the page does not change.
    fn write_tail(&self, live: &Live<'_>, size_bytes: u64) -> Result<()> {
        let (block_bytes, page_bytes) = (self.inodes.block_bytes(), self.inodes.page_bytes());
        let block = size_bytes / block_bytes;
        let is_dirty = live.state().dirty.blocks.contains(block);
        if size_bytes.is_multiple_of(block_bytes) || !is_dirty {
            return Ok(());
        }
        let mapping = self.inodes.mapping(&live.inode()?, block..block + 1)?;
        let MappingKind::Written(on_device) = mapping.kind else {
            return Ok(());
        };
        let start_bytes = block * block_bytes;
        let page = self
            .write_back
            .pin_dirty(live.ino(), start_bytes / page_bytes)?;
        let in_page = |at: u64| usize::try_from(at % page_bytes).unwrap_or(0);
        let start = in_page(start_bytes);
        let content = &page[start..][..=in_page(block_bytes - 1)];
        self.write_back
            .write_to_device(content, on_device.0 * block_bytes)?;
        live.mark_clean(block..block + 1);
        Ok(())
    }

    /// Unmaps `blocks`, the blocks after the end of a truncated file, in as many handles as
    /// necessary. The file must be recorded as an orphan. The caller must hold `map` exclusively.
    pub(super) fn unmap_rest(&self, live: &Live<'_>, mut blocks: FileBlocks) -> Result<()> {
        loop {
            blocks = live.change(self.truncation_credits(live)?, |handle, inode| {
                let left = self.unmap_some(handle, inode, blocks.clone())?;
                if left.is_empty() {
                    self.end_truncation(handle, inode)?;
                }
                Ok(left)
            })?;
            if blocks.is_empty() {
                return Ok(());
            }
        }
    }

    /// Unmaps as many of `blocks` of `inode` as the credits of the handle allow. Returns the
    /// remaining blocks.
    pub(super) fn unmap_some(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        blocks: FileBlocks,
    ) -> Result<FileBlocks> {
        if blocks.is_empty() || !self.fs().has_blocks(inode) {
            return Ok(0..0);
        }
        let left = self.fs().unmap(handle, inode, blocks.clone())?;
        if left == blocks {
            return Err(larder_ext4::Error::HandleTooLarge.into());
        }
        Ok(left)
    }

    /// Removes the inode from the orphan file or list, unless the file has no names.
    fn end_truncation(&self, handle: &mut Handle<'_>, inode: &mut Inode) -> Result<()> {
        if inode.links() > 0 {
            self.fs().remove_orphan(handle, inode)?;
        }
        Ok(())
    }

    pub(super) fn truncation_credits(&self, live: &Live<'_>) -> Result<u32> {
        let inode = live.inode()?;
        let one = self.fs().map_credits(&inode, 1);
        Ok(one.saturating_add(CREDITS + INODE_CREDITS))
    }

    /// Discards the pages past `size_bytes` of a file that had `before_bytes`, and sets the bytes
    /// after `size_bytes` in the last page to zero. Bytes past the former end are already zero. The
    /// caller must hold `map` exclusively, so that no page is filled again with the old content.
    fn drop_pages(&self, live: &Live<'_>, size_bytes: u64, before_bytes: u64) {
        let page_bytes = self.inodes.page_bytes();
        let (ino, pages) = (live.ino(), &self.inodes.caches.pages);
        let past_end = size_bytes.div_ceil(page_bytes)..before_bytes.div_ceil(page_bytes);
        pages.discard_range(ino.0.into(), past_end);
        let last = key(ino, size_bytes / page_bytes);
        // If another thread is filling the page, `lock` fails. That thread waits for `map`, and
        // then fills the page with the new content.
        if let Lock::Locked(mut page) = pages.lock(last, || false) {
            let kept = usize::try_from(size_bytes % page_bytes).unwrap_or(0);
            page[kept..].fill(0);
        }
    }
}
