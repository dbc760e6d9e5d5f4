//! fallocate(2): allocates, removes and moves ranges of a file.
//!
//! Model: `ext4_fallocate` and its callees. The file is written back first. After that, only the
//! mapping changes. One difference: if space runs out, an operation is either done completely or
//! not done at all. To achieve this, an operation reserves its space before the first step, and
//! allocates blocks before it removes any.

use super::Fallocate;
use super::Writer;
use super::names::FIXED;
use super::truncate::{FILE_BLOCKS, INODE_CREDITS};
use crate::Result;
use crate::dirty::BlockSet;
use crate::live::Live;
use crate::write_back::retry::retry_after_commit;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{Error, FileBlock, FileBlocks, Handle, Inode, MappingKind};
use larder_ext4::{Privilege, Reservation};
use std::ops::Range;

/// The maximum number of blocks that are allocated in one step. It is the maximum length of an
/// unwritten extent.
const CLAIM_BLOCKS: u64 = 32767;

impl Writer {
    /// Applies `mode` to the range `bytes` of the file, which must not be empty. The caller must
    /// hold `rw` exclusively.
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
            self.convert_inline_data(live, Privilege::Ordinary)?;
        }
        let has_extents = live.inode()?.flags().contains(InodeFlags::EXTENTS);
        if !has_extents && mode != Fallocate::PunchHole {
            let what = "this fallocate mode on a file without extents";
            return Err(Error::NotSupported(live.ino(), what).into());
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

    /// Commits the move of content by `Collapse` or `Insert`. Later writes overwrite the moved
    /// blocks in place. If such a write reached the device before the commit, a crash could make
    /// its content appear at the old offset. If the commit fails, all writing stops.
    fn commit_shift(&self) -> Result<()> {
        Ok(self.fs().commit(self.fs().running_tid()?)?)
    }

    /// Updates the times of the file. Unless `keep_size` is set, also extends the file to at least
    /// `end_bytes`.
    fn end_allocation(&self, live: &Live<'_>, end_bytes: u64, keep_size: bool) -> Result<()> {
        let size_bytes = live.peek()?.size_bytes();
        let end_bytes = if keep_size { size_bytes } else { end_bytes };
        self.grow(live, size_bytes.max(end_bytes))
    }

    /// Allocates unwritten blocks for all holes in `blocks`, and returns the runs that were holes.
    /// After an error, frees the blocks that it has allocated.
    fn allocate(&self, live: &Live<'_>, blocks: FileBlocks) -> Result<Vec<FileBlocks>> {
        self.write_back.write_file(live)?;
        let mut reservation = self.reserve_content(live, blocks.clone())?;
        let _exclusive = live.writeback.lock();
        let _map = live.change_mapping()?;
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
                    self.unmap_allocated(live, allocated);
                    return Err(error);
                }
            }
        }
        Ok(allocated)
    }

    /// Allocates unwritten blocks for the start of a hole, in one contiguous run on the image.
    /// Returns the number of blocks.
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
            Ok(self
                .fs()
                .map_claim(handle, inode, start, claim.clone(), false)?)
        });
        if mapped.is_err() {
            reservation.add(self.fs().reserve_again(claimed)?);
        }
        mapped.map(|()| len)
    }

    /// Undoes a failed allocation: unmaps the blocks, starting with the last run. If this runs out
    /// of space, commits and tries again.
    fn unmap_allocated(&self, live: &Live<'_>, allocated: Vec<FileBlocks>) {
        for blocks in allocated.into_iter().rev() {
            let mut left = blocks;
            let unmapped = retry_after_commit(self.fs(), || {
                while !left.is_empty() {
                    left = self.change_mapping(live, 1, |handle, inode| {
                        Ok(self.fs().unmap(handle, inode, left.clone())?)
                    })?;
                }
                Ok(())
            });
            if let Err(error) = unmapped {
                // This does no harm: the blocks are unwritten, so they read as zeros, as the hole
                // did.
                tracing::warn!(%error, "cannot undo a failed fallocate; its blocks stay allocated, unwritten");
                return;
            }
        }
    }

    /// Calls `change` to change the mapping of the file, in one handle with credits for `blocks`
    /// additional blocks. The caller must hold `map` exclusively.
    fn change_mapping<R>(
        &self,
        live: &Live<'_>,
        blocks: u32,
        change: impl FnMut(&mut Handle<'_>, &mut Inode) -> Result<R>,
    ) -> Result<R> {
        let credits = self.fs().map_credits(&live.inode()?, blocks);
        live.change(
            credits.max(self.truncation_credits(live)?) + INODE_CREDITS,
            change,
        )
    }

    /// Returns the blocks that are entirely within `bytes`.
    fn blocks_within(&self, bytes: &Range<u64>) -> FileBlocks {
        let block_bytes = self.inodes.block_bytes();
        let (first, end) = (bytes.start.div_ceil(block_bytes), bytes.end / block_bytes);
        first..end.max(first)
    }

    /// Zeroes the start and the end of `bytes`, where the range covers only a part of a block.
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

    /// Writes back the file, discards the pages of `blocks`, and changes the mapping of `blocks`.
    /// Calls `step` in as many handles as necessary, each time with the remaining blocks. `step`
    /// returns the blocks that remain after it, and may split extents only at `boundaries`. Fails
    /// before the first step if there is no space for the blocks of the mapping itself.
    fn remap(
        &self,
        live: &Live<'_>,
        blocks: FileBlocks,
        boundaries: &[u64],
        mut step: impl FnMut(&mut Handle<'_>, &mut Inode, FileBlocks) -> larder_ext4::Result<FileBlocks>,
    ) -> Result<()> {
        self.write_back.write_file(live)?;
        let mut starts = BlockSet::default();
        for boundary in boundaries {
            starts.insert(*boundary..boundary + 1);
        }
        let _reservation = self.reserve_remapping(live, &starts)?;
        let _exclusive = live.writeback.lock();
        let _map = live.change_mapping()?;
        let block_bytes = self.inodes.block_bytes();
        let bytes = blocks.start * block_bytes..blocks.end.saturating_mul(block_bytes);
        let page_bytes = self.inodes.page_bytes();
        // The file was written back, so the partly affected pages at both ends can also be
        // discarded.
        let pages = bytes.start / page_bytes..bytes.end.div_ceil(page_bytes);
        live.discard_pages(pages);
        let mut left = blocks;
        while !left.is_empty() {
            // Reserved space may consist of freed blocks, which can be allocated only after a
            // commit.
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
            let boundaries = [blocks.start, blocks.end];
            self.remap(live, blocks, &boundaries, |handle, inode, left| {
                self.fs().unmap(handle, inode, left)
            })?;
        }
        self.zero_edges(live, bytes)?;
        live.record_write(self.clock.now());
        Ok(())
    }

    fn zero_range(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        let allocated = self.allocate(live, self.inodes.blocks_touched(&bytes))?;
        if let Err(error) = self.convert_to_unwritten(live, self.blocks_within(&bytes)) {
            let _exclusive = live.writeback.lock();
            // Blocks that stay allocated read as zeros.
            if let Ok(_map) = live.change_mapping() {
                self.unmap_allocated(live, allocated);
            }
            return Err(error);
        }
        self.zero_edges(live, bytes)
    }

    /// Converts `blocks` to unwritten blocks. All of them must be mapped.
    fn convert_to_unwritten(&self, live: &Live<'_>, blocks: FileBlocks) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let boundaries = self.unwritten_boundaries(live, &blocks)?;
        self.remap(live, blocks, &boundaries, |handle, inode, left| {
            self.fs().set_written(handle, inode, left, false)
        })
    }

    /// Returns the block numbers at which extents start or end after `blocks` are converted to
    /// unwritten. All of `blocks` must be mapped. A written extent may be one block longer than an
    /// unwritten extent, and is then split.
    fn unwritten_boundaries(&self, live: &Live<'_>, blocks: &FileBlocks) -> Result<Vec<u64>> {
        self.write_back.write_file(live)?;
        let mut boundaries = vec![blocks.start, blocks.end];
        let mut at = blocks.start;
        while at < blocks.end {
            let mapping = self.inodes.mapping(&live.inode()?, at..blocks.end)?;
            at += u64::from(mapping.blocks);
            if u64::from(mapping.blocks) > CLAIM_BLOCKS {
                boundaries.push(at - 1);
            }
        }
        Ok(boundaries)
    }

    /// Checks that `bytes` consists of whole clusters, which a move of the content after `bytes`
    /// requires.
    fn check_whole(&self, live: &Live<'_>, bytes: &Range<u64>) -> Result<()> {
        let cluster_bytes = self.fs().superblock().cluster_size_bytes();
        if bytes.start.is_multiple_of(cluster_bytes) && bytes.end.is_multiple_of(cluster_bytes) {
            return Ok(());
        }
        Err(Error::Invalid(live.ino(), "the range is not aligned to the cluster size").into())
    }

    fn collapse(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        self.check_whole(live, &bytes)?;
        let size_bytes = live.peek()?.size_bytes();
        if bytes.end >= size_bytes {
            return Err(Error::Invalid(live.ino(), "the range reaches the end of the file").into());
        }
        let blocks = self.inodes.blocks_touched(&bytes);
        let by = i64::try_from(blocks.end - blocks.start).unwrap_or(i64::MAX);
        let size_bytes = size_bytes - (bytes.end - bytes.start);
        let boundaries = [blocks.start, blocks.end];
        let all = blocks.start..FILE_BLOCKS;
        self.remap(live, all, &boundaries, |handle, inode, left| {
            // Before the first move, the range may still contain content. One handle removes the
            // content, unless it is too large for one handle.
            let is_moving = left.start >= blocks.end;
            if !is_moving && !self.fs().unmap(handle, inode, blocks.clone())?.is_empty() {
                return Ok(left);
            }
            let following = left.start.max(blocks.end)..left.end;
            let rest = self.fs().shift(handle, inode, following, -by)?;
            if rest.is_empty() {
                inode.set_size_bytes(size_bytes);
            }
            Ok(rest)
        })?;
        // A reader may have filled pages since the shift. Discard them: the last page may contain
        // content past the new end.
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
            return Err(Error::Invalid(
                live.ino(),
                "the range starts at or past the end of the file",
            )
            .into());
        }
        let longer = size_bytes + len_bytes;
        if longer > self.fs().max_file_bytes(&live.peek()?) {
            return Err(Error::FileTooLarge(live.ino()).into());
        }
        self.zero_tail(live, size_bytes)?;
        self.write_back.write_file(live)?;
        let blocks = self.inodes.blocks_touched(&bytes);
        let by = i64::try_from(blocks.end - blocks.start).unwrap_or(i64::MAX);
        let (all, boundaries) = (blocks.start..FILE_BLOCKS, [blocks.start]);
        self.remap(live, all, &boundaries, |handle, inode, left| {
            if inode.size_bytes() < longer {
                self.fs().allow_file_size(handle, longer)?;
                inode.set_size_bytes(longer);
            }
            self.fs().shift(handle, inode, left, by)
        })
    }
}
