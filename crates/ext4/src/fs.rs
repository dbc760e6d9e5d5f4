//! A file system: its superblock, and access to its metadata through the buffer cache.
//!
//! Model: the kernel's `ext4_sb_info`. On a read-only file system, nothing in this structure
//! changes or is locked, except for the results of statfs(2), which are computed once. All other
//! state is in the buffer cache, and in the caches of the layers above this crate.

use crate::dir::RoomHints;
use crate::error::Place;
use crate::inode::Orphans;
use crate::journal::{Overlay, RecoveryCounts, Writer};
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::features::Incompat;
use crate::ondisk::group::{DescriptorPlace, GroupDesc, GroupFlags};
use crate::ondisk::inode::{InodeFlags, checksum_is_right};
use crate::ondisk::superblock::Superblock;
use crate::xattr::Sharing;
use crate::{Error, FsBlock, GroupNo, Ino, Inode, MemoryOnly, Result, ShareCounts, attempt};
use larder_cache::buffer::{Buffer, BufferCache};
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

/// The number of blocks of an inode table that are read ahead together. The first of them is at a
/// multiple of this number, counted from the start of the table.
const INODE_READAHEAD_BLOCKS: u64 = 32;

/// The results of statfs(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statfs {
    /// The block size in bytes, which is the unit of the three block counts.
    pub block_size_bytes: u32,
    /// The number of blocks for files, used and free.
    pub blocks: u64,
    /// The number of free blocks.
    pub free_blocks: u64,
    /// The number of free blocks that ordinary users may use.
    pub available_blocks: u64,
    /// The number of inodes, used and free.
    pub files: u64,
    /// The number of free inodes.
    pub free_files: u64,
    /// The identifier of the file system.
    pub fsid: u64,
}

/// A file system that is open for reading, and possibly for writing.
#[derive(Debug)]
pub struct Filesystem {
    sb: Superblock,
    buffers: Arc<BufferCache>,
    overlay: Option<Overlay>,
    pub(crate) writer: Option<Writer>,
    /// What recovery found in the journal when the file system was opened for writing.
    pub(crate) recovered: RecoveryCounts,
    /// The results of statfs(2), which are computed on first use.
    pub(crate) statfs: OnceLock<Statfs>,
    /// Hints for the blocks of linear directories that have space for new entries.
    pub(crate) room_hints: RoomHints,
    /// The orphans: files whose deletion or truncation must be finished after a crash.
    pub(crate) orphans: Orphans,
    /// The state of attribute sharing between files.
    pub(crate) sharing: Sharing,
}

/// The bytes of one inode in the inode table. Their number is the inode size in the superblock.
#[derive(Debug)]
pub struct InodeBytes<'a>(InodeSource<'a>);

#[derive(Debug)]
enum InodeSource<'a> {
    /// The bytes as they are in the inode table.
    Table(Buffer<'a>, Range<usize>),
    /// The bytes with the changes of fast commits.
    Patched(Box<[u8]>),
}

impl Deref for InodeBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            InodeSource::Table(block, range) => block.get(range.clone()).unwrap_or_default(),
            InodeSource::Patched(bytes) => bytes,
        }
    }
}

impl Filesystem {
    /// Creates a file system with the superblock `sb`. Its metadata is read through `buffers`. The
    /// buffers must have the block size in `sb`. `overlay` holds the changes of fast commits.
    #[must_use]
    pub fn new(sb: Superblock, buffers: Arc<BufferCache>, overlay: Option<Overlay>) -> Self {
        Self {
            sb,
            buffers,
            overlay,
            writer: None,
            recovered: RecoveryCounts::default(),
            statfs: OnceLock::new(),
            room_hints: RoomHints::default(),
            orphans: Orphans::default(),
            sharing: Sharing::default(),
        }
    }

    /// Returns the superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// Replaces the superblock with `sb`, after recovery changed it.
    pub(crate) fn replace_superblock(&mut self, sb: Superblock) {
        self.sb = sb;
    }

    /// Returns the statistics of attribute sharing.
    #[must_use]
    pub fn share_counts(&self) -> ShareCounts {
        self.sharing.counts()
    }

    /// Returns the cache of metadata blocks.
    #[must_use]
    pub fn buffers(&self) -> &Arc<BufferCache> {
        &self.buffers
    }

    /// Returns the changes of fast commits, if any.
    #[must_use]
    pub fn overlay(&self) -> Option<&Overlay> {
        self.overlay.as_ref()
    }

    /// Returns the number of blocks of the file system that are on the device, including a
    /// truncated block at the end. A structure with more blocks must contain a block more than
    /// once. Loops over such structures use this limit, so that they end even if a hostile image
    /// contains a cycle.
    pub(crate) fn present_blocks(&self) -> u64 {
        let block_size_bytes = u64::from(self.sb.block_size_bytes());
        let on_device = self.buffers.device_size_bytes().div_ceil(block_size_bytes);
        self.sb.blocks_count.min(on_device)
    }

    /// Returns the contents of the metadata block `block`, which belongs to `ino`.
    ///
    /// `verify` must check the contents, for example a checksum. It is not called if it has
    /// already succeeded for these cached contents, or if the block is dirty.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the block is outside the file system,
    /// [`Error::Unreadable`] if the device failed, or the error of `verify`.
    pub fn metadata_block(
        &self,
        block: FsBlock,
        ino: Ino,
        verify: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<Buffer<'_>> {
        let place = Place::Block(block, ino);
        if !self.sb.contains_blocks(block, 1) {
            return Err(place.corrupt("outside the file system"));
        }
        self.read_block(block, place, verify)
    }

    /// Returns a metadata block like [`Filesystem::metadata_block`], but does not verify its
    /// contents.
    pub(crate) fn metadata_block_unchecked(&self, block: FsBlock, ino: Ino) -> Result<Buffer<'_>> {
        self.read_block(block, Place::Block(block, ino), |_| Ok(()))
    }

    /// Hints that the `count` blocks from `block` on will be read soon.
    pub(crate) fn prefetch(&self, block: FsBlock, count: u32) {
        if attempt::is_attempt() {
            attempt::request_prefetch(block, count);
        } else if !MemoryOnly::is_active() {
            self.buffers.prefetch(block.0, count);
        }
    }

    /// Returns the contents of a block like [`Filesystem::metadata_block`], but does not check that
    /// the block is inside the file system. Within an attempt ([`crate::needs`]), or
    /// while [`MemoryOnly`] is active, fails with [`Error::NotInMemory`] if the block is not in memory.
    pub(crate) fn read_block(
        &self,
        block: FsBlock,
        place: Place,
        verify: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<Buffer<'_>> {
        if attempt::is_attempt() {
            let found = self.buffers.read_in_memory(block.0, verify)?;
            return found.ok_or_else(|| attempt::miss(block, place));
        }
        if MemoryOnly::is_active() {
            let found = self.buffers.read_in_memory(block.0, verify)?;
            return found.ok_or_else(|| MemoryOnly::miss(block));
        }
        self.buffers
            .read(block.0, verify)
            .map_err(|error: Error| match error {
                Error::Device(source) => Error::Unreadable { place, source },
                other => other,
            })
    }

    /// Returns the descriptor of `group`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if `group` does not exist or its descriptor is damaged, or the device's
    /// error.
    pub fn group(&self, group: GroupNo) -> Result<GroupDesc> {
        let place = Place::Group(group);
        place.ensure(group.0 < self.sb.groups_count, "no such block group")?;
        let at = DescriptorPlace::of(&self.sb, group);
        let block = self.read_block(at.block, place, |_| Ok(()))?;
        let bytes = block.get(at.offset_bytes..).unwrap_or_default();
        GroupDesc::parse(&self.sb, group, bytes)
    }

    /// Returns the bytes of inode `ino`, with the changes of fast commits. The bytes are not
    /// checked.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the inode number is too large or the group's descriptor is damaged,
    /// [`Error::StaleInode`] if the group's inode table was never used, or the device's error.
    pub fn inode_bytes(&self, ino: Ino) -> Result<InodeBytes<'_>> {
        let (block, start, is_in_use) = self.inode_place(ino)?;
        let buffer = self.read_block(block, Place::Inode(ino), |_| Ok(()))?;
        let range = start..start.saturating_add(usize::from(self.sb.inode_size_bytes));
        if let Some(overlay) = &self.overlay {
            let mut bytes: Box<[u8]> = buffer.get(range.clone()).unwrap_or_default().into();
            if overlay.patch_inode(ino, &mut bytes) {
                return Ok(InodeBytes(InodeSource::Patched(bytes)));
            }
        }
        if !is_in_use {
            return Err(Error::StaleInode(ino));
        }
        Ok(InodeBytes(InodeSource::Table(buffer, range)))
    }

    /// Returns the block that contains inode `ino`, the offset in bytes of the inode in the block,
    /// and whether the inode table was ever used. If the block is not cached, the surrounding
    /// blocks of the table are read ahead.
    pub(crate) fn inode_place(&self, ino: Ino) -> Result<(FsBlock, usize, bool)> {
        let (desc, offset_bytes) = self.inode_table_place(ino)?;
        let block_in_table = offset_bytes >> self.sb.block_size_log2;
        let block = FsBlock(desc.inode_table.0 + block_in_table);
        if !self.buffers.contains(block.0) {
            let first = block_in_table & !(INODE_READAHEAD_BLOCKS - 1);
            let rest = u64::from(self.sb.inode_table_blocks()) - first;
            let count = u32::try_from(rest.min(INODE_READAHEAD_BLOCKS)).unwrap_or(1);
            self.prefetch(FsBlock(desc.inode_table.0 + first), count);
        }
        let in_block = offset_bytes & u64::from(self.sb.block_size_bytes() - 1);
        Ok((
            block,
            usize::try_from(in_block).unwrap_or(usize::MAX),
            !desc.flags.contains(GroupFlags::INODE_UNINIT),
        ))
    }

    /// Returns the descriptor of the group of inode `ino`, and the offset in bytes of the inode in the group's
    /// inode table.
    pub(crate) fn inode_table_place(&self, ino: Ino) -> Result<(GroupDesc, u64)> {
        Place::Inode(ino).ensure(self.sb.has_ino(ino), "invalid inode number")?;
        let (group, index) = self.sb.inode_location(ino);
        let offset_bytes = u64::from(index) * u64::from(self.sb.inode_size_bytes);
        Ok((self.group(group)?, offset_bytes))
    }

    /// Returns the inode `ino`, which must be in use.
    ///
    /// # Errors
    /// [`Error::StaleInode`] if the inode is free, [`Error::Corrupt`] if the inode number is
    /// invalid or the inode is damaged, or the device's error.
    pub fn inode(&self, ino: Ino) -> Result<Inode> {
        self.checked_inode(ino, Inode::decode)
    }

    /// Returns the inode `ino`, which may be an orphan without links.
    ///
    /// # Errors
    /// As [`Filesystem::inode`], except that a free inode can be returned: it cannot be distinguished
    /// from an orphan.
    pub fn orphan_inode(&self, ino: Ino) -> Result<Inode> {
        self.checked_inode(ino, Inode::decode_unlinked)
    }

    fn checked_inode(
        &self,
        ino: Ino,
        decode: impl FnOnce(&Superblock, Ino, &[u8]) -> Result<Inode>,
    ) -> Result<Inode> {
        let bytes = self.inode_bytes(ino)?;
        let inode = decode(&self.sb, ino, &bytes)?;
        if matches!(bytes.0, InodeSource::Table(..))
            && let Some(seed) = self.inode_seed(&inode)
            && !checksum_is_right(&bytes, inode.extra_isize(), seed)
        {
            return Err(inode.place().corrupt("checksum of the inode is wrong"));
        }
        Ok(inode)
    }

    /// Returns whether the content of `inode` is encrypted, or, for a directory, whether its names
    /// are.
    pub(crate) fn is_encrypted(&self, inode: &Inode) -> bool {
        self.sb.incompat.contains(Incompat::ENCRYPT) && inode.flags().contains(InodeFlags::ENCRYPT)
    }

    /// Returns whether values of extended attributes can be stored in inodes of their own.
    pub(crate) fn has_value_inodes(&self) -> bool {
        self.superblock().incompat.contains(Incompat::EA_INODE)
    }

    /// Returns the seed of the checksums of `inode` and its blocks, or `None` if they have no
    /// checksums.
    pub(crate) fn inode_seed(&self, inode: &Inode) -> Option<Crc32c> {
        self.sb.inode_checksum_seed(inode.ino(), inode.generation())
    }
}
