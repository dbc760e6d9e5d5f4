//! fallocate(2): allocating, removing and moving ranges of a file.
//!
//! Model: `ext4_fallocate` and what it calls. What is dirty in the range is written back first, so
//! that all is about mappings alone.

use super::Fallocate;
use super::cut::{FILE_BLOCKS, INODE_CREDITS};
use super::names::FIXED;
use crate::Result;
use crate::live::Live;
use crate::read::Reader;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{Error, FileBlock, FileBlocks, Handle, Inode, MappingKind};
use std::ops::Range;

/// The most blocks that are claimed at once: one extent of blocks that hold no content.
const CLAIM_BLOCKS: u64 = 32767;

impl Reader {
    /// Does what `mode` says with `bytes` of the file, which are some. With `rw` held exclusively.
    pub(super) fn fallocate(
        &self,
        live: &Live<'_>,
        mode: Fallocate,
        bytes: Range<u64>,
    ) -> Result<()> {
        let inode = live.peek()?;
        let only_adds = matches!(mode, Fallocate::Allocate { .. });
        let fixed = if only_adds {
            InodeFlags::IMMUTABLE
        } else {
            FIXED
        };
        self.check_changeable(&inode, fixed)?;
        if bytes.end > self.fs.max_file_bytes(&inode) {
            return Err(Error::FileTooLarge(live.ino()).into());
        }
        if inode.has_inline_data() {
            self.outgrow_inode(live)?;
        }
        let has_extents = live.inode()?.flags().contains(InodeFlags::EXTENTS);
        if !has_extents && mode != Fallocate::PunchHole {
            return Err(Error::NotSupported(live.ino(), "fallocate without extents").into());
        }
        match mode {
            Fallocate::Allocate { keep_size } => {
                self.write_back_one(live)?;
                self.allocate(live, self.blocks_touched(&bytes))?;
                self.end_allocation(live, bytes.end, keep_size)
            }
            Fallocate::ZeroRange { keep_size } => {
                self.zero_range(live, bytes.clone())?;
                self.end_allocation(live, bytes.end, keep_size)
            }
            Fallocate::PunchHole => self.punch(live, bytes),
            Fallocate::Collapse => {
                self.collapse(live, bytes)?;
                self.commit_shift()
            }
            Fallocate::Insert => {
                self.insert(live, bytes)?;
                self.commit_shift()
            }
        }
    }

    /// Commits what moved content, so that a write to where it lies now cannot show, after a crash,
    /// where it lay before. If that fails, nothing is written any more.
    fn commit_shift(&self) -> Result<()> {
        Ok(self.fs.commit(self.fs.running_tid()?)?)
    }

    /// Stamps the file, which is to be `end_bytes` long at least unless `keep_size` says otherwise.
    fn end_allocation(&self, live: &Live<'_>, end_bytes: u64, keep_size: bool) -> Result<()> {
        let size_bytes = live.peek()?.size_bytes();
        let end_bytes = if keep_size { size_bytes } else { end_bytes };
        self.grow(live, size_bytes.max(end_bytes))
    }

    /// Maps those of `blocks` that are holes to blocks that hold no content.
    fn allocate(&self, live: &Live<'_>, blocks: FileBlocks) -> Result<()> {
        let _alone = live.writeback.lock();
        let _map = live.map.write();
        let mut at = blocks.start;
        while at < blocks.end {
            let until = blocks.end.min(at + CLAIM_BLOCKS);
            let mapping = self.mapping(&live.inode()?, at..until)?;
            if mapping.kind != MappingKind::Hole {
                at += u64::from(mapping.blocks);
                continue;
            }
            let start = FileBlock(mapping.start.0);
            let claim = self.claim_for(&live.inode()?, start, mapping.blocks, None)?;
            let len = claim.blocks();
            let credits = self.fs.map_credits(&live.inode()?, len) + INODE_CREDITS;
            let mut handle = self.fs.start(credits)?;
            let mut inode = live.inode()?;
            self.fs
                .map_claim(&mut handle, &mut inode, start, claim, false)?;
            self.fs.write_inode(&mut handle, &inode)?;
            live.publish(&handle, &inode);
            handle.stop();
            at += u64::from(len);
        }
        Ok(())
    }

    /// Makes zeros of the parts of blocks at both ends of `bytes`; returns the blocks between them.
    fn zero_edges(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<FileBlocks> {
        let block_bytes = self.block_bytes();
        let first = bytes.start.next_multiple_of(block_bytes);
        let last = bytes.end / block_bytes * block_bytes;
        if first > last {
            self.zero_in_block(live, bytes)?;
            return Ok(0..0);
        }
        self.zero_in_block(live, bytes.start..first)?;
        self.zero_in_block(live, last..bytes.end)?;
        Ok(first / block_bytes..last / block_bytes)
    }

    /// Makes the mapping of `blocks`, whose pages go, what `step` makes of it in as many handles as it
    /// takes. What is dirty outside of `blocks` is written back before.
    fn remap(
        &self,
        live: &Live<'_>,
        blocks: FileBlocks,
        mut step: impl FnMut(&mut Handle<'_>, &mut Inode, FileBlocks) -> larder_ext4::Result<FileBlocks>,
    ) -> Result<()> {
        self.write_back_one(live)?;
        let _alone = live.writeback.lock();
        let _map = live.map.write();
        let block_bytes = self.block_bytes();
        let bytes = blocks.start * block_bytes..blocks.end.saturating_mul(block_bytes);
        let page_bytes = self.page_bytes();
        // Written back, so that pages at the edges can go too.
        let pages = bytes.start / page_bytes..bytes.end.div_ceil(page_bytes);
        self.caches.pages.discard_range(live.ino().0.into(), pages);
        let mut left = blocks;
        while !left.is_empty() {
            let mut handle = self.fs.start(self.cut_credits(live)?)?;
            let mut inode = live.inode()?;
            self.stamp(&mut inode);
            left = step(&mut handle, &mut inode, left)?;
            self.fs.write_inode(&mut handle, &inode)?;
            live.publish(&handle, &inode);
            handle.stop();
        }
        Ok(())
    }

    fn punch(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        let end = bytes.end.min(
            live.peek()?
                .size_bytes()
                .next_multiple_of(self.block_bytes()),
        );
        let blocks = self.zero_edges(live, bytes.start.min(end)..end)?;
        if blocks.is_empty() {
            live.wrote(self.clock.now());
            return Ok(());
        }
        self.remap(live, blocks, |handle, inode, left| {
            self.fs.unmap(handle, inode, left)
        })
    }

    fn zero_range(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        let blocks = self.zero_edges(live, bytes.clone())?;
        self.remap(live, blocks, |handle, inode, left| {
            self.fs.set_written(handle, inode, left, false)
        })?;
        self.allocate(live, self.blocks_touched(&bytes))
    }

    /// That `bytes` are whole clusters, as moving what follows needs.
    fn check_whole(&self, live: &Live<'_>, bytes: &Range<u64>) -> Result<()> {
        let cluster_bytes = self.fs.superblock().cluster_size_bytes();
        if bytes.start.is_multiple_of(cluster_bytes) && bytes.end.is_multiple_of(cluster_bytes) {
            return Ok(());
        }
        Err(Error::Invalid(live.ino(), "range is not whole blocks").into())
    }

    fn collapse(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        self.check_whole(live, &bytes)?;
        let size_bytes = live.peek()?.size_bytes();
        if bytes.end >= size_bytes {
            return Err(Error::Invalid(live.ino(), "range reaches the end of the file").into());
        }
        let blocks = self.blocks_touched(&bytes);
        let by = i64::try_from(blocks.end - blocks.start).unwrap_or(i64::MAX);
        let size_bytes = size_bytes - (bytes.end - bytes.start);
        let mut hole = blocks.clone();
        self.remap(live, blocks.start..FILE_BLOCKS, |handle, inode, left| {
            // In one handle, unless there is too much of it.
            if !hole.is_empty() {
                hole = self.fs.unmap(handle, inode, hole.clone())?;
                if !hole.is_empty() {
                    return Ok(left);
                }
            }
            let behind = left.start.max(blocks.end)..left.end;
            let rest = self.fs.shift(handle, inode, behind, -by)?;
            if rest.is_empty() {
                inode.set_size_bytes(size_bytes);
            }
            Ok(rest)
        })?;
        // Filled since the shift, the last page has what was behind the end.
        let _map = live.map.write();
        let pages = bytes.start / self.page_bytes()..u64::MAX;
        self.caches.pages.discard_range(live.ino().0.into(), pages);
        Ok(())
    }

    fn insert(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        self.check_whole(live, &bytes)?;
        let size_bytes = live.peek()?.size_bytes();
        let len_bytes = bytes.end - bytes.start;
        if bytes.start >= size_bytes {
            return Err(Error::Invalid(live.ino(), "range starts behind the file").into());
        }
        let longer = size_bytes + len_bytes;
        if longer > self.fs.max_file_bytes(&live.peek()?) {
            return Err(Error::FileTooLarge(live.ino()).into());
        }
        self.zero_tail(live, size_bytes)?;
        self.write_back_one(live)?;
        let blocks = self.blocks_touched(&bytes);
        let by = i64::try_from(blocks.end - blocks.start).unwrap_or(i64::MAX);
        self.remap(live, blocks.start..FILE_BLOCKS, |handle, inode, left| {
            if inode.size_bytes() < longer {
                self.fs.allow_file_size(handle, longer)?;
                inode.set_size_bytes(longer);
            }
            self.fs.shift(handle, inode, left, by)
        })
    }
}
