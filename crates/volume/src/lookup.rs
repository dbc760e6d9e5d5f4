//! What names stand for: from the dentry cache, and from the directory on a miss.
//!
//! The dentry cache is changed with the names, under the directory's `rw`: what a name stands for is
//! put there, and that it is gone. Lookups that miss fill it with the same lock shared.

use crate::live::Inodes;
use crate::{Error, Result};
use larder_cache::dentry::Dentry;
use larder_ext4::ondisk::features::Incompat;
use larder_ext4::{FileTypeByte, Ino, Inode, Place};

/// What a name stands for.
pub(crate) type Entry = (Ino, FileTypeByte);

impl Inodes {
    /// What `name` stands for in the directory `parent`.
    pub(crate) fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Option<Entry>> {
        if let Some(dentry) = self.caches.dentries.get(parent.0, name) {
            return Ok(entry_in(dentry));
        }
        self.with_inode(parent, |directory| {
            let found = self.fs.lookup(directory, name)?;
            self.remember(parent, name, found);
            Ok(found)
        })
    }

    /// As [`Inodes::lookup`], in `dir`, whose `rw` is held.
    pub(crate) fn lookup_locked(&self, dir: &Inode, name: &[u8]) -> Result<Option<Entry>> {
        match self.caches.dentries.get(dir.ino().0, name) {
            Some(dentry) => Ok(entry_in(dentry)),
            None => Ok(self.fs.lookup(dir, name)?),
        }
    }

    /// As [`Inodes::lookup_locked`], of a name that must be there.
    pub(crate) fn existing_entry(&self, dir: &Inode, name: &[u8]) -> Result<Entry> {
        let entry = self.lookup_locked(dir, name)?;
        let (ino, file_type) = entry.ok_or_else(|| Error::not_found(name))?;
        check_not_itself(ino, dir.ino())?;
        Ok((ino, file_type))
    }

    /// Puts into the cache what `name` in `dir`, whose `rw` is held, stands for from now on.
    pub(crate) fn remember(&self, dir: Ino, name: &[u8], entry: Option<Entry>) {
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

    /// Forgets what ".." stands for in `dir`.
    pub(crate) fn forget_parent(&self, dir: Ino) {
        self.caches.dentries.remove(dir.0, b"..");
    }
}

/// What a name with `dentry` stands for.
fn entry_in(dentry: Dentry) -> Option<Entry> {
    match dentry {
        Dentry::Positive { ino, file_type } => Some((Ino(ino), FileTypeByte(file_type))),
        Dentry::Negative => None,
    }
}

/// The entry of a name that leads to `inode`.
pub(crate) fn entry_of(inode: &Inode) -> Entry {
    (inode.ino(), FileTypeByte::of(inode.kind()))
}

/// Refuses an entry that leads back to its own directory: only damage does, and its lock is held.
pub(crate) fn check_not_itself(ino: Ino, dir: Ino) -> Result<()> {
    if ino == dir {
        let what = "entry leads to its own directory";
        return Err(Place::Inode(dir).corrupt(what).into());
    }
    Ok(())
}
