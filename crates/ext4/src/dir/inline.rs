//! Modification of directories whose entries are stored in the inode.
//!
//! [`crate::inline`] describes the layout: the inode number of the parent is followed by two chains
//! of entries. The first chain is in the other bytes of `i_block`, and the second after the 60
//! bytes of `i_block`.

use super::change::DirChange;
use super::entry::MAX_NAME_BYTES;
use crate::error::DamageAt;
use crate::ondisk::Damage;
use crate::ondisk::dir::Dirents;
use crate::ondisk::dir_edit::{self, NewDirent};
use crate::{Filesystem, Ino, Inode, Result};
use std::ops::Range;

/// The length in bytes of the parent's inode number.
const PARENT_BYTES: usize = 4;

/// The offset in bytes of the second chain.
const SECOND_CHAIN: usize = 60;

/// The minimum length in bytes of a record, and therefore of a chain.
const MIN_CHAIN_BYTES: usize = 12;

/// Returns the ranges of the two chains in the content of an inline directory of `len` bytes.
fn chains(len: usize) -> [Range<usize>; 2] {
    [
        PARENT_BYTES..SECOND_CHAIN.min(len),
        SECOND_CHAIN.min(len)..len,
    ]
}

impl Filesystem {
    /// Extends the second chain to all free space of the inode. Returns false if the chain already
    /// uses all of it.
    fn extend_chain(&self, dir: &Inode, data: &mut Vec<u8>) -> Result<bool> {
        // The length of records, and therefore of chains, is a multiple of 4 bytes.
        let capacity = self.inline_capacity(dir)? / 4 * 4;
        let [_, second] = chains(data.len());
        if capacity <= data.len() || capacity - second.start < MIN_CHAIN_BYTES {
            return Ok(false);
        }
        data.resize(capacity, 0);
        dir_edit::extend(&mut data[second.start..], second.len()).at(dir.place())?;
        Ok(true)
    }

    /// Returns the two chains of entries of an inline directory.
    pub(crate) fn inline_chains(&self, dir: &Inode) -> Result<[Vec<u8>; 2]> {
        let data = self.inline_directory(dir)?;
        Ok(chains(data.len()).map(|chain| data[chain].to_vec()))
    }

    /// Returns the content of an inline directory. The content must be at least as long as
    /// `i_block`.
    fn inline_directory(&self, dir: &Inode) -> Result<Vec<u8>> {
        let data = self.inline_data(dir)?;
        if data.len() < SECOND_CHAIN {
            return Err(dir.place().corrupt("inline directory is too short"));
        }
        Ok(data)
    }
}

impl DirChange<'_, '_> {
    /// Initializes the new directory as an empty inline directory. Returns false if the inode has
    /// no space.
    pub(super) fn init_inline_directory(&mut self, parent: Ino) -> Result<bool> {
        if self.fs.inline_capacity(self.dir)? < SECOND_CHAIN {
            return Ok(false);
        }
        let mut data = vec![0; SECOND_CHAIN];
        data[..PARENT_BYTES].copy_from_slice(&parent.0.to_le_bytes());
        dir_edit::clear(&mut data[PARENT_BYTES..]);
        self.fs.set_inline_data(self.handle, self.dir, &data)?;
        Ok(true)
    }

    /// Adds `entry` to an inline directory. Returns false if the inode has no space.
    pub(super) fn add_inline(&mut self, entry: NewDirent<'_>) -> Result<bool> {
        let mut data = self.fs.inline_directory(self.dir)?;
        let inserted = insert_into_chains(self.dir, &mut data, entry)?
            || self.fs.extend_chain(self.dir, &mut data)?
                && insert_into_chains(self.dir, &mut data, entry)?;
        if inserted {
            self.fs.set_inline_data(self.handle, self.dir, &data)?;
        }
        Ok(inserted)
    }

    pub(super) fn set_inline_entry(&mut self, entry: NewDirent<'_>) -> Result<()> {
        let mut data = self.fs.inline_directory(self.dir)?;
        if entry.name == b".." {
            data[..PARENT_BYTES].copy_from_slice(&entry.ino.0.to_le_bytes());
            return self.fs.set_inline_data(self.handle, self.dir, &data);
        }
        self.edit_chains(data, |chain| {
            dir_edit::retarget(chain, entry.name, entry.ino, entry.file_type)
        })
    }

    pub(super) fn remove_inline_entry(&mut self, name: &[u8]) -> Result<()> {
        let data = self.fs.inline_directory(self.dir)?;
        self.edit_chains(data, |chain| dir_edit::remove(chain, name))
    }

    /// Calls `edit` with each chain, until `edit` returns true because it found and changed the
    /// entry.
    fn edit_chains(
        &mut self,
        mut data: Vec<u8>,
        mut edit: impl FnMut(&mut [u8]) -> Result<bool, Damage>,
    ) -> Result<()> {
        for chain in chains(data.len()) {
            if edit(&mut data[chain]).at(self.dir.place())? {
                return self.fs.set_inline_data(self.handle, self.dir, &data);
            }
        }
        Err(self.dir.place().corrupt("directory entry no longer exists"))
    }

    /// Moves the entries of an inline directory into a block.
    pub(super) fn move_out_of_inode(&mut self) -> Result<()> {
        let data = self.fs.inline_directory(self.dir)?;
        self.fs.remove_inline_data(self.handle, self.dir)?;
        let parent = Ino(u32::from_le_bytes([data[0], data[1], data[2], data[3]]));
        let mut entries = Vec::new();
        for chain in chains(data.len()) {
            for dirent in Dirents::new(&data[chain]) {
                let dirent = dirent.at(self.dir.place())?;
                debug_assert!(dirent.name.len() <= MAX_NAME_BYTES);
                entries.push(NewDirent::from(dirent));
            }
        }
        self.init_first_block(parent, &entries)
    }
}

/// Adds `entry` to the first chain that has space for it. `data` is the content of an inline
/// directory. Returns false if no chain has space.
fn insert_into_chains(dir: &Inode, data: &mut [u8], entry: NewDirent<'_>) -> Result<bool> {
    for chain in chains(data.len()) {
        if dir_edit::insert(&mut data[chain], entry).at(dir.place())? {
            return Ok(true);
        }
    }
    Ok(false)
}
