//! Allocation and freeing of blocks, which change bitmaps and descriptors.

use super::bits::Bits;
use super::claim::Claim;
use super::counts::Privilege;
use super::load::is_uninitialized;
use super::run::Run;
use super::{Goal, NO_INO};
use crate::error::Place;
use crate::journal::Handle;
use crate::ondisk::bitmap;
use crate::ondisk::group::{DescriptorPlace, GroupDesc, GroupFlags};
use crate::{Error, Filesystem, FsBlock, GroupNo, Ino, Result};
use std::ops::Range;
use std::sync::Arc;

impl Filesystem {
    /// Allocates the blocks of `claim`: marks them as used in the bitmap.
    ///
    /// # Errors
    /// [`Error::Corrupt`], or [`Error::HandleTooLarge`] if the handle has too few credits left.
    /// After an error, the caller must drop the handle.
    pub fn take(&self, handle: &mut Handle<'_>, claim: Claim) -> Result<()> {
        let Some(clusters) = claim.into_clusters() else {
            return Ok(());
        };
        let run = clusters.run;
        // The undo record must exist before the change.
        handle.allocation.taken.push(clusters);
        self.allocator().counts().apply(run.len, 0);
        self.change_bits(handle, run, true)
    }

    /// Marks the given blocks as used, except for those that are already marked. The replay of fast
    /// commits calls this function for the blocks that they map.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the blocks are outside the file system, or the image is damaged.
    pub(crate) fn use_blocks(
        &self,
        handle: &mut Handle<'_>,
        start: FsBlock,
        blocks: u32,
    ) -> Result<()> {
        let space = self.space()?;
        for run in self.runs_of(start, blocks, NO_INO)? {
            let (group, bits) = space.geometry.bits(run);
            // Blocks that this handle freed are clear in the bitmap, but their bits in the map are
            // still set. Therefore the map and the bitmap are both searched.
            let free = self.with_map(group, |state| {
                let maps = state.map.iter();
                let free: Vec<_> = maps.flat_map(|map| map.busy.runs(bits.clone())).collect();
                for range in &free {
                    state.hold(range.clone());
                }
                free
            })?;
            let desc = self.group(group)?;
            let unused = if is_uninitialized(&desc, group) {
                free
            } else {
                let len = space.geometry.clusters_in(group);
                let used = Bits::from_bytes(&self.block_bitmap(group, &desc)?, len);
                used.runs(bits).collect()
            };
            for bits in unused {
                let run = space.geometry.run(group, &bits);
                space.counts().claim_reserved(run.len);
                self.take(handle, Claim::new(Arc::clone(space), run))?;
            }
        }
        Ok(())
    }

    /// Allocates a block for metadata; with bigalloc, its whole cluster. If necessary, uses the
    /// clusters that are kept back for metadata.
    ///
    /// # Errors
    /// [`Error::NoSpace`], even if [`Filesystem::commit_freed`] would free blocks;
    /// [`Error::Corrupt`].
    pub fn allocate_block(&self, handle: &mut Handle<'_>, near: FsBlock) -> Result<FsBlock> {
        self.allocate_block_as(handle, near, Privilege::Metadata)
    }

    /// Allocates a block that will map content, like [`Filesystem::allocate_block`]. May also use
    /// clusters that were [reserved](Filesystem::reserve_for_mapping) for this purpose.
    ///
    /// # Errors
    /// As [`Filesystem::allocate_block`].
    pub(crate) fn allocate_mapping(
        &self,
        handle: &mut Handle<'_>,
        near: FsBlock,
    ) -> Result<FsBlock> {
        self.allocate_block_as(handle, near, Privilege::Mapping)
    }

    fn allocate_block_as(
        &self,
        handle: &mut Handle<'_>,
        near: FsBlock,
        privilege: Privilege,
    ) -> Result<FsBlock> {
        let goal = Goal {
            near,
            ..Goal::default()
        };
        let claim = self.claim_as(goal, 1, None, privilege)?;
        let block = claim.start();
        self.take(handle, claim)?;
        Ok(block)
    }

    /// Marks blocks as free. With bigalloc, frees every cluster that the blocks touch.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a block is already free, or contains metadata of the file system
    /// itself.
    pub fn free_blocks(
        &self,
        handle: &mut Handle<'_>,
        start: FsBlock,
        blocks: u32,
        ino: Ino,
    ) -> Result<()> {
        let space = self.allocator();
        for run in self.runs_of(start, blocks, ino)? {
            let (group, bits) = space.geometry.bits(run);
            let is_system = self.with_map(group, |state| {
                let system = state.map.iter().flat_map(|map| &map.system);
                let mut system = system.filter(|at| at.start < bits.end && bits.start < at.end);
                state.held += run.len;
                system.next().is_some()
            })?;
            handle.allocation.freed.push(run);
            space.counts().apply(0, run.len);
            if is_system {
                return Err(
                    Place::Block(start, ino).corrupt("attempt to free metadata of the file system")
                );
            }
            self.change_bits(handle, run, false)
                .map_err(|error| match error {
                    Error::Corrupt(corrupt) if corrupt.what == FREE_ALREADY => {
                        Place::Block(start, ino).corrupt(FREE_ALREADY)
                    }
                    other => other,
                })?;
        }
        Ok(())
    }

    /// Returns whether `block` is marked as used in the bitmap, including changes of the open
    /// handle. Returns false if the bitmap cannot be read.
    pub(crate) fn is_used(&self, block: FsBlock) -> bool {
        let geometry = &self.allocator().geometry;
        let (group, bit) = geometry.place(geometry.cluster_of(block));
        let Ok(desc) = self.group(group) else {
            return false;
        };
        !is_uninitialized(&desc, group)
            && self
                .block_bitmap(group, &desc)
                .is_ok_and(|bytes| bitmap::all(&bytes, bit..bit + 1, true))
    }

    /// Sets or clears the bits of `run` in the bitmap of its group, and updates the group's counts.
    /// Before the call, all these bits must have the opposite value.
    fn change_bits(&self, handle: &mut Handle<'_>, run: Run, is_used: bool) -> Result<()> {
        let (group, bits) = self.allocator().geometry.bits(run);
        let sb = self.superblock();
        let desc = self.group(group)?;
        if is_uninitialized(&desc, group) {
            self.make_block_bitmap(handle, group, &desc)?;
        }
        let checksum = handle.update(desc.block_bitmap, NO_INO, |bytes| {
            if !bitmap::all(bytes, bits.clone(), !is_used) {
                let what = if is_used {
                    "attempt to allocate blocks that are already in use"
                } else {
                    FREE_ALREADY
                };
                return Err(Place::Group(group).corrupt(what));
            }
            bitmap::fill(bytes, bits, is_used);
            Ok(bitmap::block_bitmap_checksum(sb, bytes))
        })?;
        self.update_descriptor(handle, group, |desc| {
            desc.flags.remove(GroupFlags::BLOCK_UNINIT);
            desc.block_bitmap_checksum = checksum;
            let free = if is_used {
                desc.free_clusters.checked_sub(run.len)
            } else {
                desc.free_clusters.checked_add(run.len)
            };
            desc.free_clusters =
                free.ok_or_else(|| Place::Group(group).corrupt("free block count is wrong"))?;
            Ok(())
        })
    }

    /// Initializes the block bitmap of `group`, and marks only metadata as used. The descriptor
    /// must mark the bitmap as uninitialized.
    fn make_block_bitmap(
        &self,
        handle: &mut Handle<'_>,
        group: GroupNo,
        desc: &GroupDesc,
    ) -> Result<()> {
        if !self.superblock().contains_blocks(desc.block_bitmap, 1) {
            return Err(Place::Group(group).corrupt("bitmap is outside the file system"));
        }
        let system = self.system_clusters(group, desc)?;
        let len = self.allocator().geometry.clusters_in(group);
        handle.create(desc.block_bitmap, NO_INO, |bytes| {
            for range in system {
                bitmap::fill(bytes, range, true);
            }
            fill_padding(bytes, len);
            Ok(())
        })
    }

    /// Changes the descriptor of `group`.
    pub(super) fn update_descriptor(
        &self,
        handle: &mut Handle<'_>,
        group: GroupNo,
        edit: impl FnOnce(&mut GroupDesc) -> Result<()>,
    ) -> Result<()> {
        let sb = self.superblock();
        let at = DescriptorPlace::of(sb, group);
        let bytes = at.offset_bytes..at.offset_bytes + usize::from(sb.descriptor_size_bytes);
        handle.update_part(at.block, NO_INO, bytes, |bytes| {
            let mut desc = GroupDesc::parse(sb, group, bytes)?;
            edit(&mut desc)?;
            desc.write(sb, group, bytes)
        })
    }
}

/// The error message for a block that is freed twice.
const FREE_ALREADY: &str = "attempt to free blocks that are already free";

/// Sets all bits of a bitmap after the first `len` bits.
pub(super) fn fill_padding(bytes: &mut [u8], len: u32) {
    let end = u32::try_from(bytes.len() * 8).unwrap_or(u32::MAX);
    let padding: Range<u32> = len.min(end)..end;
    bitmap::fill(bytes, padding, true);
}
