//! Allocation and freeing of inode numbers.
//!
//! # Tables that were never zeroed
//! A group's inode table may contain garbage after the last inode that was ever used
//! ([`GroupDesc::unused_inodes`]). The lowest free number is allocated first, so that garbage never
//! precedes an inode in use. Allocating the first number of a block of the table fills that block
//! with zeros. The caller must then write all bytes of the new inode.
//!
//! If a damaged descriptor counted inodes in use as never used, filling the block with zeros would
//! overwrite them. Therefore a block is initialized only if the inode bitmap confirms that no inode
//! in it is in use.

use super::NO_INO;
use super::blocks::fill_padding;
use crate::error::Place;
use crate::journal::Handle;
use crate::ondisk::bitmap;
use crate::ondisk::group::{GroupDesc, GroupFlags};
use crate::{Error, Filesystem, FsBlock, GroupNo, Ino, Inode, Result, attempt};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl Filesystem {
    /// Allocates an inode number for a new file in the directory `parent`. The caller must then
    /// write all bytes of the inode, because the contents of the inode table are undefined.
    ///
    /// # Errors
    /// [`crate::Error::NoInodes`], or corruption of the image.
    pub fn allocate_inode(
        &self,
        handle: &mut Handle<'_>,
        parent: &Inode,
        is_directory: bool,
    ) -> Result<Ino> {
        let space = self.allocator();
        if !space.counts().may_have_inodes() {
            return Err(Error::NoInodes);
        }
        let (home, _) = self.superblock().inode_location(parent.ino());
        let preferred = if is_directory {
            self.group_for_directory(parent, home)
        } else {
            home
        };
        if attempt::gives_way() {
            // `preferred` was chosen without the missing descriptors, so it may be the wrong group.
            return Err(Error::NoInodes);
        }
        let last = GroupNo(space.last_inode_group.load(Ordering::Relaxed));
        for may_reuse in [false, true] {
            let near = self.flex_groups(preferred).chain([last]);
            for group in near.chain(self.groups_from(preferred)) {
                match self.allocate_inode_in(handle, group, is_directory, may_reuse) {
                    Ok(Some(ino)) => {
                        space.last_inode_group.store(group.0, Ordering::Relaxed);
                        return Ok(ino);
                    }
                    // Damaged groups are skipped.
                    Ok(None) | Err(Error::Corrupt(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            if !handle.has_freed_inodes() {
                break;
            }
        }
        Err(Error::NoInodes)
    }

    /// Allocates the inode number `ino`, because a fast commit that is being replayed created this
    /// inode. Returns false if the number is already in use.
    pub(crate) fn allocate_inode_number(
        &self,
        handle: &mut Handle<'_>,
        ino: Ino,
        is_directory: bool,
    ) -> Result<bool> {
        let sb = self.superblock();
        Place::Inode(ino).ensure(sb.is_file_ino(ino), "attempt to allocate a reserved inode")?;
        let (group, index) = sb.inode_location(ino);
        let desc = self.group(group)?;
        self.with_map(group, |_| ())?;
        if !is_uninitialized(&desc) && bitmap::is_set(&self.inode_bitmap(group, &desc)?, index) {
            return Ok(false);
        }
        self.check_index(group, &desc, index)?;
        // Also initializes the preceding blocks of the table that were never used.
        let per_block = self.inodes_in_block();
        for block in self.first_unused(&desc).div_ceil(per_block)..index / per_block {
            let place = FsBlock(desc.inode_table.0 + u64::from(block));
            handle.create(place, ino, |_| Ok(()))?;
        }
        self.take_index(handle, group, &desc, index, is_directory)?;
        Ok(true)
    }

    /// Allocates the lowest inode number of `group` that can be used, or returns `None` if the
    /// group has none. With `may_reuse`, numbers that the running transaction freed can be used,
    /// although old names of these inodes may reappear after a power cut.
    fn allocate_inode_in(
        &self,
        handle: &mut Handle<'_>,
        group: GroupNo,
        is_directory: bool,
        may_reuse: bool,
    ) -> Result<Option<Ino>> {
        let desc = self.group(group)?;
        if desc.free_inodes == 0 {
            return Ok(None);
        }
        // Loading the map checks that the group's metadata has a valid location.
        self.with_map(group, |_| ())?;
        let is_new = is_uninitialized(&desc);
        let indices = self.indices(group);
        let index = if is_new {
            Some(indices.start).filter(|_| !indices.is_empty())
        } else {
            let bytes = self.inode_bitmap(group, &desc)?;
            let free = |from| bitmap::first_clear(&bytes, from, indices.end);
            let lowest = free(indices.start);
            let numbers = self.ino_of(group, 0)..self.ino_of(group, indices.end);
            match handle.last_freed(numbers).filter(|_| !may_reuse) {
                // Skips all freed numbers, without checking each one.
                Some(last) if lowest.is_some_and(|index| self.ino_of(group, index) <= last) => {
                    free((last.0 - 1) % self.superblock().inodes_per_group + 1)
                }
                _ => lowest,
            }
        };
        let Some(index) = index else {
            return Ok(None);
        };
        self.check_index(group, &desc, index)?;
        self.take_index(handle, group, &desc, index, is_directory)?;
        Ok(Some(self.ino_of(group, index)))
    }

    /// Marks the inode number `index` of `group` as used. The caller must already have checked the
    /// group for corruption, so that this function does not fail after part of the change.
    fn take_index(
        &self,
        handle: &mut Handle<'_>,
        group: GroupNo,
        desc: &GroupDesc,
        index: u32,
        is_directory: bool,
    ) -> Result<()> {
        let sb = self.superblock();
        if is_uninitialized(desc) {
            let reserved = self.indices(group).start;
            handle.create(desc.inode_bitmap, NO_INO, |bytes| {
                bitmap::fill(bytes, 0..reserved, true);
                fill_padding(bytes, sb.inodes_per_group);
                Ok(())
            })?;
        }
        let first_unused = self.first_unused(desc);
        self.mark_inode(handle, group, desc, index, true)?;
        self.update_descriptor(handle, group, |desc| {
            desc.flags.remove(GroupFlags::INODE_UNINIT);
            desc.free_inodes = desc.free_inodes.saturating_sub(1);
            let directories = desc.used_directories.checked_add(u32::from(is_directory));
            desc.used_directories = directories.ok_or_else(|| wrong_directories(group))?;
            let first_unused = first_unused.max(index + 1);
            desc.unused_inodes = sb.inodes_per_group.saturating_sub(first_unused);
            Ok(())
        })?;
        handle
            .allocation
            .taken_inodes
            .push(self.ino_of(group, index));
        self.allocator().counts().take_inode();
        if self.is_block_unused(desc, index) {
            let block = desc.inode_table.0 + u64::from(index / self.inodes_in_block());
            handle.create(FsBlock(block), self.ino_of(group, index), |_| Ok(()))?;
        }
        Ok(())
    }

    /// Returns an error if the allocation of the free number `index` of `group` might overwrite
    /// inodes in use. This is possible if it would initialize a block of the inode table, and the
    /// bitmap marks inodes as used that the descriptor counts as never used.
    fn check_index(&self, group: GroupNo, desc: &GroupDesc, index: u32) -> Result<()> {
        if !self.is_block_unused(desc, index) {
            return Ok(());
        }
        let indices = self.indices(group);
        let is_right = if is_uninitialized(desc) {
            // No bitmap exists yet, so the counts of the descriptor must show that no inode is in
            // use.
            indices.start == 0 && desc.free_inodes == indices.end && desc.used_directories == 0
        } else {
            let first_unused = self.first_unused(desc);
            let bytes = self.inode_bitmap(group, desc)?;
            first_unused >= indices.start && bitmap::all(&bytes, first_unused..indices.end, false)
        };
        if is_right {
            return Ok(());
        }
        Err(Place::Group(group)
            .corrupt("inode bitmap marks inodes as used that the descriptor counts as unused"))
    }

    /// Returns whether the block of the inode table that contains the number `index` was never
    /// used.
    fn is_block_unused(&self, desc: &GroupDesc, index: u32) -> bool {
        let per_block = self.inodes_in_block();
        self.first_unused(desc) <= index / per_block * per_block
    }

    fn inodes_in_block(&self) -> u32 {
        let sb = self.superblock();
        sb.block_size_bytes() / u32::from(sb.inode_size_bytes)
    }

    /// Marks the inode number `ino` as free.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the number is already free, or is reserved, or the group is damaged.
    pub fn free_inode(&self, handle: &mut Handle<'_>, ino: Ino, is_directory: bool) -> Result<()> {
        let sb = self.superblock();
        let place = Place::Inode(ino);
        place.ensure(sb.is_file_ino(ino), "attempt to free a reserved inode")?;
        let (group, index) = sb.inode_location(ino);
        let desc = self.group(group)?;
        place.ensure(!is_uninitialized(&desc), FREE_ALREADY)?;
        self.with_map(group, |_| ())?;
        // Reading the bitmap verifies it, unless it is already cached.
        if !bitmap::is_set(&self.inode_bitmap(group, &desc)?, index) {
            return Err(place.corrupt(FREE_ALREADY));
        }
        self.mark_inode(handle, group, &desc, index, false)?;
        self.update_descriptor(handle, group, |desc| {
            let free = desc.free_inodes.checked_add(1);
            desc.free_inodes = free.ok_or_else(|| place.corrupt("free inode count is wrong"))?;
            let directories = desc.used_directories.checked_sub(u32::from(is_directory));
            desc.used_directories = directories.ok_or_else(|| wrong_directories(group))?;
            Ok(())
        })?;
        handle.allocation.freed_inodes.push(ino);
        let space = self.allocator();
        space.counts().free_inodes += 1;
        space.release_window(ino);
        Ok(())
    }

    /// Sets or clears the bit of inode `index` of `group`. The bit must have the opposite value.
    fn mark_inode(
        &self,
        handle: &mut Handle<'_>,
        group: GroupNo,
        desc: &GroupDesc,
        index: u32,
        is_used: bool,
    ) -> Result<()> {
        let sb = self.superblock();
        let checksum = handle.update(desc.inode_bitmap, NO_INO, |bytes| {
            bitmap::fill(bytes, index..index + 1, is_used);
            Ok(bitmap::inode_bitmap_checksum(sb, bytes))
        })?;
        self.update_descriptor(handle, group, |desc| {
            desc.inode_bitmap_checksum = checksum;
            Ok(())
        })
    }

    /// Returns the range of numbers in `group`, counted from 0, that files may use.
    fn indices(&self, group: GroupNo) -> Range<u32> {
        let sb = self.superblock();
        let before = u64::from(group.0) * u64::from(sb.inodes_per_group);
        let within = |number: u64| {
            let index = number.saturating_sub(before);
            u32::try_from(index).map_or(sb.inodes_per_group, |index| index.min(sb.inodes_per_group))
        };
        let reserved = u64::from(sb.first_ino.0.saturating_sub(1));
        within(reserved)..within(u64::from(sb.inodes_count))
    }

    fn ino_of(&self, group: GroupNo, index: u32) -> Ino {
        let before = group.0.saturating_mul(self.superblock().inodes_per_group);
        Ino(before.saturating_add(index).saturating_add(1))
    }

    /// Returns the number, counted from 0, that follows the last inode that was ever used in a
    /// group.
    fn first_unused(&self, desc: &GroupDesc) -> u32 {
        let sb = self.superblock();
        if is_uninitialized(desc) {
            0
        } else if sb.has_descriptor_checksums() {
            sb.inodes_per_group.saturating_sub(desc.unused_inodes)
        } else {
            sb.inodes_per_group
        }
    }
}

/// The error message for an inode that is freed twice.
const FREE_ALREADY: &str = "attempt to free an inode that is already free";

fn wrong_directories(group: GroupNo) -> Error {
    Place::Group(group).corrupt("directory count is wrong")
}

/// Returns whether the inode bitmap has not been created yet. No inode is then in use.
fn is_uninitialized(desc: &GroupDesc) -> bool {
    desc.flags.contains(GroupFlags::INODE_UNINIT)
}
