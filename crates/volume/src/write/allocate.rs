//! fallocate(2): allocating, removing and moving ranges of a file.
//!
//! Model: `ext4_fallocate` and what it calls. What is dirty in the range is written back first, so
//! that all is about mappings alone. Different from it, all is done or nothing where space ends:
//! what a change needs is promised before its first step, and comes before anything is taken away.

use super::Fallocate;
use super::Writer;
use super::cut::{FILE_BLOCKS, INODE_CREDITS};
use super::names::FIXED;
use crate::Result;
use crate::dirty::BlockSet;
use crate::live::Live;
use crate::write_back::retry::retry_after_commit;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{Error, FileBlock, FileBlocks, Handle, Inode, MappingKind, Reservation};
use std::ops::Range;

/// The most blocks that are claimed at once: one extent of blocks that hold no content.
const CLAIM_BLOCKS: u64 = 32767;

impl Writer {
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
        if bytes.end > self.fs().max_file_bytes(&inode) {
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
                drop(self.allocate(live, self.inodes.blocks_touched(&bytes))?);
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
        Ok(self.fs().commit(self.fs().running_tid()?)?)
    }

    /// Stamps the file, which is to be `end_bytes` long at least unless `keep_size` says otherwise.
    fn end_allocation(&self, live: &Live<'_>, end_bytes: u64, keep_size: bool) -> Result<()> {
        let size_bytes = live.peek()?.size_bytes();
        let end_bytes = if keep_size { size_bytes } else { end_bytes };
        self.grow(live, size_bytes.max(end_bytes))
    }

    /// Maps those of `blocks` that are holes to blocks that hold no content; all of them, or none.
    /// Returns which those were.
    fn allocate(&self, live: &Live<'_>, blocks: FileBlocks) -> Result<Vec<FileBlocks>> {
        self.write_back.write_file(live)?;
        let mut reservation = self.reserve_content(live, blocks.clone())?;
        let _alone = live.writeback.lock();
        let _map = live.map.write();
        let mut allocated = Vec::new();
        let mut at = blocks.start;
        while at < blocks.end {
            let until = blocks.end.min(at + CLAIM_BLOCKS);
            let mapping = self.inodes.mapping(&live.inode()?, at..until)?;
            if mapping.kind != MappingKind::Hole {
                at += u64::from(mapping.blocks);
                continue;
            }
            let hole = (FileBlock(mapping.start.0), mapping.blocks);
            match retry_after_commit(self.fs(), || {
                self.allocate_once(live, hole, &mut reservation)
            }) {
                Ok(len) => {
                    allocated.push(at..at + u64::from(len));
                    at += u64::from(len);
                }
                Err(error) => {
                    self.give_back(live, allocated);
                    return Err(error);
                }
            }
        }
        Ok(allocated)
    }

    /// Allocates as much of the hole as follows each other on the image; returns how much.
    fn allocate_once(
        &self,
        live: &Live<'_>,
        (start, blocks): (FileBlock, u32),
        reservation: &mut Reservation,
    ) -> Result<u32> {
        let reserved = reservation.clusters();
        let claim = self
            .fs()
            .claim_for(&live.inode()?, start, blocks, Some(reservation))?;
        let (len, claimed) = (claim.blocks(), reserved - reservation.clusters());
        let mapped = self.change_mapping(live, len, |handle, inode| {
            Ok(self.fs().map_claim(handle, inode, start, claim, false)?)
        });
        if mapped.is_err() {
            reservation.add(self.fs().reserve_again(claimed)?);
        }
        mapped.map(|()| len)
    }

    /// Unmaps what was allocated for nothing, the last first, as whoever came to lack space for more.
    fn give_back(&self, live: &Live<'_>, allocated: Vec<FileBlocks>) {
        for blocks in allocated.into_iter().rev() {
            let mut left = blocks;
            let given = retry_after_commit(self.fs(), || {
                while !left.is_empty() {
                    left = self.change_mapping(live, 1, |handle, inode| {
                        Ok(self.fs().unmap(handle, inode, left.clone())?)
                    })?;
                }
                Ok(())
            });
            if let Err(error) = given {
                // They hold no content, and read as the hole did.
                tracing::warn!(%error, "blocks stay allocated that were not all there");
                return;
            }
        }
    }

    /// Changes how the file is mapped, in one handle with credits for `blocks` more blocks. `map` is held
    /// exclusively.
    fn change_mapping<R>(
        &self,
        live: &Live<'_>,
        blocks: u32,
        change: impl FnOnce(&mut Handle<'_>, &mut Inode) -> Result<R>,
    ) -> Result<R> {
        let credits = self.fs().map_credits(&live.inode()?, blocks);
        live.change(credits.max(self.cut_credits(live)?) + INODE_CREDITS, change)
    }

    /// The blocks that `bytes` have whole.
    fn blocks_within(&self, bytes: &Range<u64>) -> FileBlocks {
        let block_bytes = self.inodes.block_bytes();
        let (first, end) = (bytes.start.div_ceil(block_bytes), bytes.end / block_bytes);
        first..end.max(first)
    }

    /// Makes zeros of the parts of blocks at both ends of `bytes`.
    fn zero_edges(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        let block_bytes = self.inodes.block_bytes();
        let first = bytes.start.next_multiple_of(block_bytes);
        let last = bytes.end / block_bytes * block_bytes;
        if first > last {
            return self.zero_in_block(live, bytes);
        }
        self.zero_in_block(live, bytes.start..first)?;
        self.zero_in_block(live, last..bytes.end)
    }

    /// Makes the mapping of `blocks`, whose pages go, what `step` makes of it in as many handles as it
    /// takes, and leaves all as it was where the blocks of the mapping itself have no space. New
    /// extents start or end at `cuts`, at most. What is dirty is written back before.
    fn remap(
        &self,
        live: &Live<'_>,
        blocks: FileBlocks,
        cuts: &[u64],
        mut step: impl FnMut(&mut Handle<'_>, &mut Inode, FileBlocks) -> larder_ext4::Result<FileBlocks>,
    ) -> Result<()> {
        self.write_back.write_file(live)?;
        let mut starts = BlockSet::default();
        for cut in cuts {
            starts.insert(*cut..cut + 1);
        }
        let _promise = self.reserve_remapping(live, &starts)?;
        let _alone = live.writeback.lock();
        let _map = live.map.write();
        let block_bytes = self.inodes.block_bytes();
        let bytes = blocks.start * block_bytes..blocks.end.saturating_mul(block_bytes);
        let page_bytes = self.inodes.page_bytes();
        // Written back, so that pages at the edges can go too.
        let pages = bytes.start / page_bytes..bytes.end.div_ceil(page_bytes);
        live.discard_pages(pages);
        let mut left = blocks;
        while !left.is_empty() {
            // What was promised may have to be committed before it can be had.
            left = retry_after_commit(self.fs(), || {
                self.change_mapping(live, 1, |handle, inode| {
                    self.stamp(inode);
                    Ok(step(handle, inode, left.clone())?)
                })
            })?;
        }
        Ok(())
    }

    fn punch(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        let end = bytes.end.min(
            live.peek()?
                .size_bytes()
                .next_multiple_of(self.inodes.block_bytes()),
        );
        let bytes = bytes.start.min(end)..end;
        let blocks = self.blocks_within(&bytes);
        if !blocks.is_empty() {
            let cuts = [blocks.start, blocks.end];
            self.remap(live, blocks, &cuts, |handle, inode, left| {
                self.fs().unmap(handle, inode, left)
            })?;
        }
        self.zero_edges(live, bytes)?;
        live.wrote(self.clock.now());
        Ok(())
    }

    fn zero_range(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        let allocated = self.allocate(live, self.inodes.blocks_touched(&bytes))?;
        if let Err(error) = self.take_content(live, self.blocks_within(&bytes)) {
            let _alone = live.writeback.lock();
            let _map = live.map.write();
            self.give_back(live, allocated);
            return Err(error);
        }
        self.zero_edges(live, bytes)
    }

    /// Makes `blocks`, all of which are mapped, hold no content.
    fn take_content(&self, live: &Live<'_>, blocks: FileBlocks) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let cuts = self.cuts_unwritten(live, &blocks)?;
        self.remap(live, blocks, &cuts, |handle, inode, left| {
            self.fs().set_written(handle, inode, left, false)
        })
    }

    /// Where extents come to start or to end when `blocks`, all of which are mapped, hold no content
    /// any more: those that do may be a block longer.
    fn cuts_unwritten(&self, live: &Live<'_>, blocks: &FileBlocks) -> Result<Vec<u64>> {
        self.write_back.write_file(live)?;
        let mut cuts = vec![blocks.start, blocks.end];
        let mut at = blocks.start;
        while at < blocks.end {
            let mapping = self.inodes.mapping(&live.inode()?, at..blocks.end)?;
            at += u64::from(mapping.blocks);
            if u64::from(mapping.blocks) > CLAIM_BLOCKS {
                cuts.push(at - 1);
            }
        }
        Ok(cuts)
    }

    /// That `bytes` are whole clusters, as moving what follows needs.
    fn check_whole(&self, live: &Live<'_>, bytes: &Range<u64>) -> Result<()> {
        let cluster_bytes = self.fs().superblock().cluster_size_bytes();
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
        let blocks = self.inodes.blocks_touched(&bytes);
        let by = i64::try_from(blocks.end - blocks.start).unwrap_or(i64::MAX);
        let size_bytes = size_bytes - (bytes.end - bytes.start);
        let cuts = [blocks.start, blocks.end];
        let all = blocks.start..FILE_BLOCKS;
        let mut hole = blocks.clone();
        self.remap(live, all, &cuts, |handle, inode, left| {
            // In one handle, unless there is too much of it.
            let mut rest_of_hole = hole.clone();
            if !hole.is_empty() {
                rest_of_hole = self.fs().unmap(handle, inode, hole.clone())?;
                if !rest_of_hole.is_empty() {
                    hole = rest_of_hole;
                    return Ok(left);
                }
            }
            let behind = left.start.max(blocks.end)..left.end;
            let rest = self.fs().shift(handle, inode, behind, -by)?;
            if rest.is_empty() {
                inode.set_size_bytes(size_bytes);
            }
            // Not before: what fails is done again.
            hole = rest_of_hole;
            Ok(rest)
        })?;
        // Filled since the shift, the last page has what was behind the end.
        let _map = live.map.write();
        let pages = bytes.start / self.inodes.page_bytes()..u64::MAX;
        live.discard_pages(pages);
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
        if longer > self.fs().max_file_bytes(&live.peek()?) {
            return Err(Error::FileTooLarge(live.ino()).into());
        }
        self.zero_tail(live, size_bytes)?;
        self.write_back.write_file(live)?;
        let blocks = self.inodes.blocks_touched(&bytes);
        let by = i64::try_from(blocks.end - blocks.start).unwrap_or(i64::MAX);
        let (all, cuts) = (blocks.start..FILE_BLOCKS, [blocks.start]);
        self.remap(live, all, &cuts, |handle, inode, left| {
            if inode.size_bytes() < longer {
                self.fs().allow_file_size(handle, longer)?;
                inode.set_size_bytes(longer);
            }
            self.fs().shift(handle, inode, left, by)
        })
    }
}
