//! Changing directories: entries in inline, linear and indexed directories.
//!
//! All change the inode in memory where the directory grows or turns into another kind: the
//! caller writes it in the same handle. Link counts are the caller's too.
//!
//! # A directory's growth
//! ```text
//! inline --no room--> linear, one block --no room--> hash tree (feature dir_index)
//!                                         `--------> linear, more blocks (without it)
//! ```
//! Nothing turns back, and no block is given up: as in Linux.

use super::{Block, DirBlocks, MAX_NAME_BYTES, Order};
use crate::error::{DamageAt, Place};
use crate::journal::Handle;
use crate::ondisk::dir::record_len_bytes;
use crate::ondisk::dir_edit::{self, NewDirent};
use crate::ondisk::features::{Compat, Incompat};
use crate::ondisk::inode::InodeFlags;
use crate::{Error, FileTypeByte, Filesystem, FsBlock, Ino, Inode, Result};
use std::ops::ControlFlow;

/// The length of the record of ".".
const DOT_RECORD_BYTES: usize = 12;

impl Filesystem {
    /// Adds `name`, which is not there, to the directory `dir`.
    ///
    /// # Errors
    /// [`Error::NameTooLong`], [`Error::NoSpace`], or what is wrong with the image.
    pub fn add_entry(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        name: &[u8],
        target: (Ino, FileTypeByte),
    ) -> Result<()> {
        self.check_changeable(dir)?;
        let entry = self.dirent(dir, name, target)?;
        if dir.has_inline_data() {
            if self.add_inline(handle, dir, entry)? {
                return Ok(());
            }
            self.move_out_of_inode(handle, dir)?;
        }
        if self.is_indexed(dir) {
            return self.add_indexed(handle, dir, entry);
        }
        if self.add_linear(handle, dir, entry)? {
            return Ok(());
        }
        let block_size_bytes = u64::from(self.superblock().block_size_bytes());
        let has_index = self.superblock().compat.contains(Compat::DIR_INDEX);
        if has_index && dir.size_bytes() == block_size_bytes {
            self.make_index(handle, dir)?;
            return self.add_indexed(handle, dir, entry);
        }
        let number = self.append_leaf(handle, dir, |chain| {
            dir_edit::insert(chain, entry).map(|_| ())
        })?;
        self.room_hints
            .learn(dir.ino(), number, record_len_bytes(name.len()));
        Ok(())
    }

    /// Makes `name`, which is there (".." too), lead to `target`.
    pub fn set_entry(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        name: &[u8],
        target: (Ino, FileTypeByte),
    ) -> Result<()> {
        self.check_changeable(dir)?;
        let entry = self.dirent(dir, name, target)?;
        if dir.has_inline_data() {
            return self.set_inline_entry(handle, dir, entry);
        }
        let block = self.find_entry(dir, name)?;
        if block.number == 0 && self.is_indexed(dir) {
            return self.set_dots_of_root(handle, dir, block.at, entry);
        }
        self.edit_leaf(handle, dir, block.at, |chain| {
            dir_edit::retarget(chain, name, entry.ino, entry.file_type).map(|_| ())
        })
    }

    /// Removes `name`, which is there.
    pub fn remove_entry(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        name: &[u8],
    ) -> Result<()> {
        self.check_changeable(dir)?;
        if matches!(name, b"." | b"..") {
            return Err(Error::Invalid(dir.ino(), "not a name that can be removed"));
        }
        if dir.has_inline_data() {
            return self.remove_inline_entry(handle, dir, name);
        }
        let block = self.find_entry(dir, name)?;
        self.edit_leaf(handle, dir, block.at, |chain| {
            dir_edit::remove(chain, name).map(|_| ())
        })?;
        self.room_hints.freed(dir.ino(), block.number);
        Ok(())
    }

    /// Makes `dir`, which is new, an empty directory below `parent`.
    pub fn init_directory(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        parent: Ino,
    ) -> Result<()> {
        self.room_hints.forget(dir.ino());
        if self.superblock().incompat.contains(Incompat::INLINE_DATA)
            && self.init_inline_directory(handle, dir, parent)?
        {
            return Ok(());
        }
        self.init_first_block(handle, dir, parent, &[])
    }

    /// Whether the directory holds nothing but "." and "..".
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

    /// Whether entries of `dir` can be changed here.
    fn check_changeable(&self, dir: &Inode) -> Result<()> {
        self.check_directory(dir)?;
        self.check_names(dir)?;
        if dir.flags().contains(InodeFlags::CASEFOLD)
            && self.superblock().incompat.contains(Incompat::CASEFOLD)
        {
            return Err(Error::Casefolded(dir.ino()));
        }
        Ok(())
    }

    /// The record for `name` in `dir`.
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
            return Err(Error::Invalid(dir.ino(), "not a name that a file can have"));
        }
        Ok(NewDirent {
            ino,
            file_type: self.file_type(file_type.0).0,
            name,
        })
    }

    /// The block of `dir` that has `name`.
    fn find_entry(&self, dir: &Inode, name: &[u8]) -> Result<Block> {
        let found = self.find(dir, name)?;
        let missing = || dir.place().corrupt("entry is no longer there");
        found.map(|(block, _)| block).ok_or_else(missing)
    }

    /// Adds `entry` to the first block of the linear directory `dir` that has room; false if
    /// none has.
    fn add_linear(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        entry: NewDirent<'_>,
    ) -> Result<bool> {
        // Whatever index there was is overwritten, and would be trusted again if the
        // feature came back.
        dir.set_flags(dir.flags() - InodeFlags::INDEX);
        let wanted_bytes = record_len_bytes(entry.name.len());
        let first = self.room_hints.first_block(dir.ino(), wanted_bytes);
        let mut room = None;
        let mut blocks = DirBlocks::new(self, *dir, first.into());
        while let Some((number, block)) = blocks.next() {
            let (at, bytes) = block?;
            let place = Place::Block(at, dir.ino());
            let chain = self.leaf_chain(&bytes, place)?;
            let found = dir_edit::find_room(chain, entry.name.len()).at(place)?;
            if let Some(offset) = found {
                room = Some((number, at, offset));
                break;
            }
        }
        let Some((number, at, offset)) = room else {
            return Ok(false);
        };
        self.edit_leaf(handle, dir, at, |chain| {
            dir_edit::insert_at(chain, offset, entry)
        })?;
        let number = u32::try_from(number).unwrap_or(0);
        self.room_hints.learn(dir.ino(), number, wanted_bytes);
        Ok(true)
    }

    /// Gives `dir`, which has no blocks, its first one: ".", ".." and `entries`.
    pub(super) fn init_first_block(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        parent: Ino,
        entries: &[NewDirent<'_>],
    ) -> Result<()> {
        dir.set_size_bytes(0);
        let file_type = self.file_type(FileTypeByte::DIRECTORY.0).0;
        let dots = [(dir.ino(), b".".as_slice()), (parent, b"..")].map(|(ino, name)| NewDirent {
            ino,
            file_type,
            name,
        });
        self.append_leaf(handle, dir, |chain| {
            let all = dots.into_iter().chain(entries.iter().copied());
            if dir_edit::fill(chain, all) {
                Ok(())
            } else {
                Err("content of the inode does not fit into a block")
            }
        })?;
        Ok(())
    }

    /// Makes the entry of "." or ".." in the root of `dir`'s hash tree, the block `at`, lead
    /// elsewhere.
    fn set_dots_of_root(
        &self,
        handle: &mut Handle<'_>,
        dir: &Inode,
        at: FsBlock,
        entry: NewDirent<'_>,
    ) -> Result<()> {
        let offset = match entry.name {
            b"." => 0,
            b".." => DOT_RECORD_BYTES,
            _ => {
                return Err(Place::Block(at, dir.ino()).corrupt("root of the hash tree has a name"));
            }
        };
        self.edit_root(handle, dir, at, |root| {
            root[offset..offset + 4].copy_from_slice(&entry.ino.0.to_le_bytes());
        })
    }
}
