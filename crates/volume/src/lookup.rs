//! Name lookups, in the dentry cache and, on a miss, in the directory.
//!
//! The dentry cache changes together with the names, under the directory's `rw`: a new name is
//! inserted as a positive dentry, a removed name as a negative one. Lookups that miss insert their
//! result with the same lock held shared.

use crate::live::Inodes;
use crate::{Error, Result};
use larder_cache::dentry::Dentry;
use larder_ext4::ondisk::features::Incompat;
use larder_ext4::{FileTypeByte, Ino, Inode, Place};

/// The target of a name.
pub(crate) type Entry = (Ino, FileTypeByte);

impl Inodes {
    /// Looks up `name` in the directory `parent`.
    pub(crate) fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Option<Entry>> {
        if let Some(dentry) = self.caches.dentries.get(parent.0, name) {
            return Ok(entry_in(dentry));
        }
        self.with_inode(parent, |directory| {
            let found = self.fs.lookup(directory, name)?;
            self.insert_dentry(parent, name, found);
            Ok(found)
        })
    }

    /// Looks up like [`Inodes::lookup`] in `dir`, whose `rw` is held.
    pub(crate) fn lookup_locked(&self, dir: &Inode, name: &[u8]) -> Result<Option<Entry>> {
        match self.caches.dentries.get(dir.ino().0, name) {
            Some(dentry) => Ok(entry_in(dentry)),
            None => Ok(self.fs.lookup(dir, name)?),
        }
    }

    /// Looks up like [`Inodes::lookup_locked`] a name that must exist.
    pub(crate) fn existing_entry(&self, dir: &Inode, name: &[u8]) -> Result<Entry> {
        let entry = self.lookup_locked(dir, name)?;
        let (ino, file_type) = entry.ok_or_else(|| Error::not_found(name))?;
        check_not_itself(ino, dir.ino())?;
        Ok((ino, file_type))
    }

    /// Inserts the new target of `name` in `dir` into the dentry cache. The caller holds `rw` of
    /// `dir`.
    pub(crate) fn insert_dentry(&self, dir: Ino, name: &[u8], entry: Option<Entry>) {
        let has_types = self.fs.superblock().incompat.contains(Incompat::FILETYPE);
        let dentry = match entry {
            Some((ino, file_type)) => Dentry::Positive {
                ino: ino.0,
                file_type: if has_types { file_type.0 } else { 0 },
            },
            None => Dentry::Negative,
        };
        self.caches.dentries.insert(dir.0, name, dentry);
    }

    /// Removes ".." of `dir` from the dentry cache.
    pub(crate) fn remove_parent_dentry(&self, dir: Ino) {
        self.caches.dentries.remove(dir.0, b"..");
    }
}

/// Returns the target that `dentry` records.
fn entry_in(dentry: Dentry) -> Option<Entry> {
    match dentry {
        Dentry::Positive { ino, file_type } => Some((Ino(ino), FileTypeByte(file_type))),
        Dentry::Negative => None,
    }
}

/// Returns the directory entry for a name of `inode`.
pub(crate) fn entry_of(inode: &Inode) -> Entry {
    (inode.ino(), FileTypeByte::of(inode.kind()))
}

/// Refuses an entry that refers to its own directory. Only damage causes this, and the directory's
/// lock is already held.
pub(crate) fn check_not_itself(ino: Ino, dir: Ino) -> Result<()> {
    if ino == dir {
        let what = "directory entry refers to its own directory";
        return Err(Place::Inode(dir).corrupt(what).into());
    }
    Ok(())
}
