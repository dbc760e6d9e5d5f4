//! Searches for a name in one part of a directory: a block, or the content of an inode.
//!
//! The linear search, the search by hash ([`crate::htree`]) and the search in an inode use these
//! functions.

use super::entry::Target;
use crate::error::{DamageAt, Place};
use crate::ondisk::dir::{Dirent, Dirents, FileTypeByte};
use crate::ondisk::features::Incompat;
use crate::{Filesystem, Result};

impl Filesystem {
    /// Returns the target of `name`, or `None` if no entry of the block at `place` has this name.
    pub(crate) fn search_block(
        &self,
        block: &[u8],
        name: &[u8],
        place: Place,
    ) -> Result<Option<Target>> {
        for dirent in Dirents::new(block) {
            let dirent = dirent.at(place)?;
            if dirent.name == name {
                return self.target(&dirent, place).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the target of `dirent`, which is at `place`.
    pub(super) fn target(&self, dirent: &Dirent<'_>, place: Place) -> Result<Target> {
        if dirent.ino.0 > self.superblock().inodes_count {
            return Err(place.corrupt("directory entry has an invalid inode number"));
        }
        Ok((dirent.ino, self.file_type(dirent.file_type)))
    }

    /// Returns the type of an entry with the type byte `byte`, or unknown if entries have no type.
    pub(crate) fn file_type(&self, byte: u8) -> FileTypeByte {
        if self.superblock().incompat.contains(Incompat::FILETYPE) {
            FileTypeByte(byte)
        } else {
            FileTypeByte::UNKNOWN
        }
    }
}

/// Returns the first target in the results of the searches of a directory's parts. If all
/// searches end without a target, returns the error of the first damaged part.
pub(crate) fn first_found<T>(
    searched: impl IntoIterator<Item = Result<Option<T>>>,
) -> Result<Option<T>> {
    let mut damage = None;
    for result in searched {
        match result {
            Ok(None) => {}
            Ok(found) => return Ok(found),
            Err(error) => {
                damage.get_or_insert(error);
            }
        }
    }
    damage.map_or(Ok(None), Err)
}
