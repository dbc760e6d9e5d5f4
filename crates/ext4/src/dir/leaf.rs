//! Modification of one block of a directory: the entries are changed, and then the checksum is set.

use super::change::DirChange;
use crate::error::{DamageAt, Place};
use crate::ondisk::Damage;
use crate::ondisk::dir::split_tail;
use crate::ondisk::dir_edit::{self, NewDirent};
use crate::ondisk::features::Incompat;
use crate::{Error, FileBlock, FileTypeByte, Filesystem, FsBlock, Ino, Inode, MappingKind, Result};

/// The maximum number of blocks of a directory, because block numbers in a hash tree have 28 bits.
const MAX_BLOCKS: u64 = 1 << 28;

impl Filesystem {
    /// Returns the entries in the directory block `bytes`: all bytes except for the tail. If
    /// metadata has checksums, the block must have a tail.
    pub(crate) fn leaf_chain<'b>(&self, bytes: &'b [u8], place: Place) -> Result<&'b [u8]> {
        if !self.superblock().has_metadata_checksums() {
            return Ok(bytes);
        }
        let (chain, _) =
            split_tail(bytes).ok_or_else(|| place.corrupt("directory block has no checksum"))?;
        Ok(chain)
    }

    /// Sets the checksum of a block with entries of `dir`, if metadata has checksums.
    fn set_leaf_checksum(&self, dir: &Inode, bytes: &mut [u8]) {
        if let Some(seed) = self.inode_seed(dir)
            && let Some((chain, tail)) = dir_edit::split_tail_mut(bytes)
        {
            dir_edit::set_tail_checksum(tail, seed.bytes(chain).0);
        }
    }
}

impl DirChange<'_, '_> {
    /// Changes the entries in the directory block at `block` with `edit`, and sets the checksum.
    pub(crate) fn edit_leaf<R>(
        &mut self,
        block: FsBlock,
        edit: impl FnOnce(&mut [u8]) -> Result<R, Damage>,
    ) -> Result<R> {
        let place = Place::Block(block, self.dir.ino());
        self.handle.update(block, self.dir.ino(), |bytes| {
            if !self.fs.superblock().has_metadata_checksums() {
                return edit(bytes).at(place);
            }
            let Some((chain, _)) = dir_edit::split_tail_mut(bytes) else {
                return Err(place.corrupt("directory block has no checksum"));
            };
            let edited = edit(chain).at(place)?;
            self.fs.set_leaf_checksum(self.dir, bytes);
            Ok(edited)
        })
    }

    /// Appends a block with entries to `dir`. Calls `fill` with the part of the block that holds
    /// entries. Before this call, the part consists of one free record. Returns the number of the
    /// block in the directory.
    pub(crate) fn append_leaf(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Damage>,
    ) -> Result<u32> {
        let (fs, dir) = (self.fs, *self.dir);
        self.append_block(|block, bytes| {
            let has_tail = fs.superblock().has_metadata_checksums();
            if has_tail {
                dir_edit::make_tail(bytes);
            }
            let chain = match dir_edit::split_tail_mut(bytes) {
                Some((chain, _)) if has_tail => chain,
                _ => bytes,
            };
            dir_edit::clear(chain);
            fill(chain).at(Place::Block(block, dir.ino()))?;
            fs.set_leaf_checksum(&dir, bytes);
            Ok(())
        })
    }

    /// Adds the first block to `dir`, with ".", ".." and `entries`. `dir` must have no blocks.
    pub(super) fn init_first_block(
        &mut self,
        parent: Ino,
        entries: &[NewDirent<'_>],
    ) -> Result<()> {
        self.dir.set_size_bytes(0);
        let file_type = self.fs.file_type(FileTypeByte::DIRECTORY.0).0;
        let dots =
            [(self.dir.ino(), b".".as_slice()), (parent, b"..")].map(|(ino, name)| NewDirent {
                ino,
                file_type,
                name,
            });
        self.append_leaf(|chain| {
            let all = dots.into_iter().chain(entries.iter().copied());
            if dir_edit::fill(chain, all) {
                Ok(())
            } else {
                Err("entries of the inline directory do not fit into a block")
            }
        })?;
        Ok(())
    }

    /// Appends a block of zeros to `dir`, and changes it with `fill`. Returns the number of the
    /// block in the directory.
    pub(crate) fn append_block(
        &mut self,
        fill: impl FnOnce(FsBlock, &mut [u8]) -> Result<()>,
    ) -> Result<u32> {
        let block_size_bytes = u64::from(self.fs.superblock().block_size_bytes());
        let index = self.dir.size_bytes().div_ceil(block_size_bytes);
        let size_bytes = (index + 1) * block_size_bytes;
        let has_large_dir = self.fs.superblock().incompat.contains(Incompat::LARGE_DIR);
        if index >= MAX_BLOCKS || !has_large_dir && size_bytes > u64::from(u32::MAX) {
            return Err(Error::NoSpace);
        }
        let number = u32::try_from(index).map_err(|_| Error::NoSpace)?;
        let start = FileBlock(number);
        if self.fs.map(self.dir, start, 1)?.kind != MappingKind::Hole {
            return Err(self
                .dir
                .place()
                .corrupt("directory has blocks past its end"));
        }
        let claim = self.fs.claim_for(self.dir, start, 1, None)?;
        let block = claim.start();
        self.fs
            .map_claim(self.handle, self.dir, start, claim, true)?;
        self.handle
            .create(block, self.dir.ino(), |bytes| fill(block, bytes))?;
        self.dir.set_size_bytes(size_bytes);
        Ok(number)
    }
}
