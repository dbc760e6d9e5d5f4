//! Modification of inline, linear and indexed directories.
//!
//! If the directory grows or changes its kind, these functions change the inode in memory. The
//! caller must write the inode with the same handle, and must also maintain the link counts.
//!
//! # A directory's growth
//! ```text
//! inline --no room--> linear, one block --no room--> hash tree (feature dir_index)
//!                                         `--------> linear, more blocks (without it)
//! ```
//! As in Linux, a directory never returns to an earlier kind, and its blocks are not freed while it
//! exists.

use super::change::DirChange;
use super::entry::MAX_NAME_BYTES;
use super::read_dir::Order;
use super::{Block, DirBlocks};
use crate::error::{DamageAt, Place};
use crate::journal::Handle;
use crate::ondisk::dir::record_len_bytes;
use crate::ondisk::dir_edit::{self, NewDirent};
use crate::ondisk::features::{Compat, Incompat};
use crate::ondisk::inode::InodeFlags;
use crate::{Error, FileTypeByte, Filesystem, FsBlock, Ino, Inode, Result};
use std::ops::ControlFlow;

/// The length in bytes of the record of ".".
const DOT_RECORD_BYTES: usize = 12;

impl Filesystem {
    /// Adds `name`, which must not exist yet, to the directory `dir`.
    ///
    /// # Errors
    /// [`Error::NameTooLong`], [`Error::NoSpace`], or the error for a damaged image.
    pub fn add_entry(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        name: &[u8],
        target: (Ino, FileTypeByte),
    ) -> Result<()> {
        let mut change = self.dir_change(handle, dir)?;
        let entry = self.dirent(change.dir, name, target)?;
        if change.dir.has_inline_data() {
            if change.add_inline(entry)? {
                return Ok(());
            }
            change.move_out_of_inode()?;
        }
        if self.is_indexed(change.dir) {
            return change.add_indexed(entry);
        }
        if change.add_linear(entry)? {
            return Ok(());
        }
        let block_size_bytes = u64::from(self.superblock().block_size_bytes());
        let has_index = self.superblock().compat.contains(Compat::DIR_INDEX);
        if has_index && change.dir.size_bytes() == block_size_bytes {
            change.make_index()?;
            return change.add_indexed(entry);
        }
        let number = change.append_leaf(|chain| dir_edit::insert(chain, entry).map(|_| ()))?;
        let dir = change.dir.ino();
        self.room_hints
            .record(dir, number, record_len_bytes(name.len()));
        Ok(())
    }

    /// Changes the target of `name`, which must exist or be "..", to `target`.
    pub fn set_entry(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        name: &[u8],
        target: (Ino, FileTypeByte),
    ) -> Result<()> {
        let mut change = self.dir_change(handle, dir)?;
        let entry = self.dirent(change.dir, name, target)?;
        if change.dir.has_inline_data() {
            return change.set_inline_entry(entry);
        }
        let block = self.find_entry(change.dir, name)?;
        if block.number == 0 && self.is_indexed(change.dir) {
            return change.set_dots_of_root(block.at, entry);
        }
        change.edit_leaf(block.at, |chain| {
            dir_edit::retarget(chain, name, entry.ino, entry.file_type).map(|_| ())
        })
    }

    /// Removes `name`, which must exist.
    pub fn remove_entry(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        name: &[u8],
    ) -> Result<()> {
        let mut change = self.dir_change(handle, dir)?;
        let ino = change.dir.ino();
        if matches!(name, b"." | b"..") {
            return Err(Error::Invalid(ino, "'.' and '..' cannot be removed"));
        }
        if change.dir.has_inline_data() {
            return change.remove_inline_entry(name);
        }
        let block = self.find_entry(change.dir, name)?;
        change.edit_leaf(block.at, |chain| dir_edit::remove(chain, name))?;
        self.room_hints.record_removal(ino, block.number);
        Ok(())
    }

    /// Initializes the new inode `dir` as an empty directory in `parent`.
    pub fn init_directory(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        parent: Ino,
    ) -> Result<()> {
        self.room_hints.remove(dir.ino());
        let mut change = DirChange {
            fs: self,
            handle,
            dir,
        };
        if self.superblock().incompat.contains(Incompat::INLINE_DATA)
            && change.init_inline_directory(parent)?
        {
            return Ok(());
        }
        change.init_first_block(parent, &[])
    }

    /// Returns whether the directory contains only "." and "..".
    pub fn is_empty_directory(&self, dir: &Inode) -> Result<bool> {
        let mut is_empty = true;
        self.list(dir, 0, Order::Blocks, &mut |entry| {
            if matches!(entry.name, b"." | b"..") {
                return ControlFlow::Continue(());
            }
            is_empty = false;
            ControlFlow::Break(())
        })?;
        Ok(is_empty)
    }

    /// Starts a change of the entries of `dir`. Returns an error if Larder cannot change them.
    fn dir_change<'c, 'f>(
        &'c self,
        handle: &'c mut Handle<'f>,
        dir: &'c mut Inode,
    ) -> Result<DirChange<'c, 'f>> {
        self.check_directory(dir)?;
        self.check_comparable(dir)?;
        Ok(DirChange {
            fs: self,
            handle,
            dir,
        })
    }

    /// Returns the record for `name` in `dir`.
    fn dirent<'n>(
        &self,
        dir: &Inode,
        name: &'n [u8],
        (ino, file_type): (Ino, FileTypeByte),
    ) -> Result<NewDirent<'n>> {
        if name.len() > MAX_NAME_BYTES {
            return Err(Error::NameTooLong(dir.ino()));
        }
        if name.is_empty() || name.iter().any(|&byte| matches!(byte, 0 | b'/')) {
            return Err(Error::Invalid(
                dir.ino(),
                "the file name is empty, or contains a slash or a NUL byte",
            ));
        }
        Ok(NewDirent {
            ino,
            file_type: self.file_type(file_type.0).0,
            name,
        })
    }

    /// Returns the block of `dir` that contains `name`.
    fn find_entry(&self, dir: &Inode, name: &[u8]) -> Result<Block> {
        let found = self.find(dir, name)?;
        let missing = || dir.place().corrupt("directory entry no longer exists");
        found.map(|(block, _)| block).ok_or_else(missing)
    }
}

impl DirChange<'_, '_> {
    /// Adds `entry` to the first block of the linear directory `dir` that has space. Returns false
    /// if there is no such block.
    fn add_linear(&mut self, entry: NewDirent<'_>) -> Result<bool> {
        // New entries may overwrite the nodes of an old index, so the directory's flag for an index
        // is removed. If the feature `dir_index` is enabled later, the damaged index is not used.
        self.dir.set_flags(self.dir.flags() - InodeFlags::INDEX);
        let wanted_bytes = record_len_bytes(entry.name.len());
        let first = self.fs.room_hints.first_block(self.dir.ino(), wanted_bytes);
        let mut room = None;
        let mut blocks = DirBlocks::new(self.fs, *self.dir, first.into());
        while let Some((number, block)) = blocks.next() {
            let (at, bytes) = block?;
            let place = Place::Block(at, self.dir.ino());
            let chain = self.fs.leaf_chain(&bytes, place)?;
            let found = dir_edit::find_room(chain, entry.name.len()).at(place)?;
            if let Some(offset) = found {
                room = Some((number, at, offset));
                break;
            }
        }
        let Some((number, at, offset)) = room else {
            return Ok(false);
        };
        self.edit_leaf(at, |chain| dir_edit::insert_at(chain, offset, entry))?;
        let number = u32::try_from(number).unwrap_or(0);
        self.fs
            .room_hints
            .record(self.dir.ino(), number, wanted_bytes);
        Ok(true)
    }

    /// Changes the target of "." or ".." in the block `at`, which must be the root of `dir`'s hash
    /// tree.
    fn set_dots_of_root(&mut self, at: FsBlock, entry: NewDirent<'_>) -> Result<()> {
        let offset = match entry.name {
            b"." => 0,
            b".." => DOT_RECORD_BYTES,
            _ => {
                return Err(Place::Block(at, self.dir.ino())
                    .corrupt("root of the hash tree contains a file name"));
            }
        };
        self.edit_root(at, |root| {
            root[offset..offset + 4].copy_from_slice(&entry.ino.0.to_le_bytes());
        })
    }
}
