//! Making files shorter and longer.
//!
//! Model: `ext4_setattr` and `ext4_truncate`. A truncation may need several handles. The inode is
//! an orphan in the meantime, so that the next mount finishes a truncation that a crash
//! interrupted.

use super::Writer;
use super::names::FIXED;
use crate::Result;
use crate::live::{Live, key};
use larder_cache::page::Lock;
use larder_ext4::{Error, FileBlocks, Handle, Inode, MappingKind};

/// The maximum number of blocks in a file.
pub(super) const FILE_BLOCKS: u64 = 1 << 32;

/// Additional credits of a handle that unmaps blocks, beside the credits for one of them. With
/// these, one handle suffices for most files.
const CREDITS: u32 = 64;

/// Credits for the inode, the orphan list or file, and the superblock.
pub(super) const INODE_CREDITS: u32 = 6;

impl Writer {
    /// Sets the size of the file to `size_bytes`. The caller holds `rw` exclusively.
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
            // This includes content that is cut off, because the zeros must be durable before the
            // truncation.
            self.write_back.write_file(live)?;
        }
        self.shrink(live, size_bytes)
    }

    /// Sets the size of the file to `size_bytes`, which is not less than its present size.
    pub(super) fn grow(&self, live: &Live<'_>, size_bytes: u64) -> Result<()> {
        if size_bytes > live.peek()?.size_bytes() {
            self.zero_tail(live, live.peek()?.size_bytes())?;
        }
        // The size must not pass content that is not on the device.
        self.write_back.write_file(live)?;
        live.change(INODE_CREDITS, |handle, inode| {
            self.stamp(inode);
            self.fs().allow_file_size(handle, size_bytes)?;
            inode.set_size_bytes(size_bytes);
            Ok(())
        })
    }

    /// Truncates the file to `size_bytes`. The rest of its last block is zero.
    fn shrink(&self, live: &Live<'_>, size_bytes: u64) -> Result<()> {
        let _exclusive = live.writeback.lock();
        let _map = live.map.write();
        let blocks = size_bytes.div_ceil(self.inodes.block_bytes())..FILE_BLOCKS;
        let before = live.peek()?.size_bytes();
        self.write_tail(live, size_bytes)?;
        let fs = self.fs();
        let mut handle = fs.start(self.truncation_credits(live)?)?;
        let mut inode = live.inode()?;
        self.stamp(&mut inode);
        // The size must not pass content that is only in memory.
        inode.set_size_bytes(size_bytes.min(inode.size_bytes()));
        fs.add_orphan(&mut handle, &mut inode)?;
        let left = fs.unmap(&mut handle, &mut inode, blocks.clone())?;
        if left.is_empty() {
            self.end_truncation(&mut handle, &mut inode)?;
        }
        fs.write_inode(&mut handle, &inode)?;
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

    /// Writes the block at the end of a file that is about to be `size_bytes` long, if it is
    /// mapped. Its zeros must be written before the truncation. Otherwise, after a crash, a file
    /// that grows again could show the content that was cut off. The caller holds `writeback` and
    /// `rw`, so the page does not change.
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

    /// Unmaps `blocks`, which are cut off from a file that is an orphan, in as many handles as
    /// necessary. The caller holds `map` exclusively.
    pub(super) fn unmap_rest(&self, live: &Live<'_>, mut blocks: FileBlocks) -> Result<()> {
        loop {
            blocks = live.change(self.truncation_credits(live)?, |handle, inode| {
                let left = self.unmap_some(handle, inode, blocks)?;
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

    /// Unmaps as many of `blocks` of `inode` as fit into the handle. Returns the remaining blocks.
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

    /// Removes the inode from the orphans, unless the file has lost its last name.
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

    /// Drops the pages past `size_bytes` of a file that had `before_bytes`, and fills the rest of
    /// the last page with zeros. Bytes past the former end are zeros already. The caller holds
    /// `map` exclusively, so no page is filled again with the old content.
    fn drop_pages(&self, live: &Live<'_>, size_bytes: u64, before_bytes: u64) {
        let page_bytes = self.inodes.page_bytes();
        let (ino, pages) = (live.ino(), &self.inodes.caches.pages);
        let past_end = size_bytes.div_ceil(page_bytes)..before_bytes.div_ceil(page_bytes);
        pages.discard_range(ino.0.into(), past_end);
        let last = key(ino, size_bytes / page_bytes);
        // A thread that is filling the page has not looked up the mapping yet.
        if let Lock::Locked(mut page) = pages.lock(last, || false) {
            let kept = usize::try_from(size_bytes % page_bytes).unwrap_or(0);
            page[kept..].fill(0);
        }
    }
}
