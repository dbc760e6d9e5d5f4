//! Looks up names in the dentry cache and, after a miss, in the directory.
//!
//! Locking: an operation that changes names updates the dentry cache while it holds `rw` of the
//! directory exclusively: a new name becomes a positive dentry, and a removed name becomes a negative
//! dentry. A lookup that misses the cache inserts its result while it holds `rw` of the directory
//! shared.

use crate::live::Inodes;
use crate::{Error, Result};
use larder_block::Priority;
use larder_cache::dentry::Dentry;
use larder_cache::tape::NameEvent;
use larder_ext4::ondisk::features::Incompat;
use larder_ext4::{FileTypeByte, Ino, Inode, MemoryOnly, Place};

/// The maximum length of a name, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// The inode number and the type to which a name refers.
pub(crate) type Entry = (Ino, FileTypeByte);

impl Inodes {
    /// Looks up `name` in the directory `parent`. Returns `None` if the name does not exist.
    pub(crate) fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Option<Entry>> {
        if let Some(dentry) = self.caches.dentries.get(parent.0, name) {
            return Ok(entry_in(dentry));
        }
        self.with_inode(parent, |directory| {
            // A thread that must not wait starts no readahead. If its lookup needs a block that is not
            // in memory, the lookup fails, and is repeated later without this restriction.
            if self.reads_trees_ahead && !MemoryOnly::is_active() {
                let mut budget = self.fs.buffers().prefetch_budget();
                self.fs
                    .start_reading_dir(directory, Priority::Demand, &mut budget);
            }
            let found = self.fs.lookup(directory, name)?;
            if let Some((ino, _)) = found {
                self.caches.inodes.dentry_missed(ino.0);
            }
            self.insert_dentry(parent, name, found);
            Ok(found)
        })
    }

    /// Looks up `name` in the directory `dir`. The caller must hold `rw` of `dir`. A miss does not
    /// insert a dentry.
    pub(crate) fn lookup_locked(&self, dir: &Inode, name: &[u8]) -> Result<Option<Entry>> {
        match self.caches.dentries.get(dir.ino().0, name) {
            Some(dentry) => Ok(entry_in(dentry)),
            None => Ok(self.fs.lookup(dir, name)?),
        }
    }

    /// Returns the entry `name` of `dir`, or an error if it does not exist. The caller must hold
    /// `rw` of `dir`.
    pub(crate) fn existing_entry(&self, dir: &Inode, name: &[u8]) -> Result<Entry> {
        let entry = self.lookup_locked(dir, name)?;
        let (ino, file_type) = entry.ok_or_else(|| Error::not_found(name))?;
        check_not_itself(ino, dir.ino())?;
        Ok((ino, file_type))
    }

    /// Inserts the target of `name` in `dir` into the dentry cache, or a negative dentry if `entry`
    /// is `None`. The caller must hold `rw` of `dir`.
    pub(crate) fn insert_dentry(&self, dir: Ino, name: &[u8], entry: Option<Entry>) {
        if let Some((ino, _)) = entry {
            self.record_name(dir, name, ino);
        }
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

    /// Reports the name of `ino` in the directory `dir` to the tape, if names are recorded.
    pub(crate) fn record_name(&self, dir: Ino, name: &[u8], ino: Ino) {
        if let Some(tape) = &self.names_tape {
            tape.record_name(&NameEvent {
                directory: dir.0.into(),
                name,
                ino: ino.0.into(),
            });
        }
    }

    /// Removes the dentry ".." of `dir` from the dentry cache.
    pub(crate) fn remove_parent_dentry(&self, dir: Ino) {
        self.caches.dentries.remove(dir.0, b"..");
    }
}

/// Returns the target of `dentry`, or `None` for a negative dentry.
fn entry_in(dentry: Dentry) -> Option<Entry> {
    match dentry {
        Dentry::Positive { ino, file_type } => Some((Ino(ino), FileTypeByte(file_type))),
        Dentry::Negative => None,
    }
}

/// Returns the target of a name that refers to `inode`.
pub(crate) fn entry_of(inode: &Inode) -> Entry {
    (inode.ino(), FileTypeByte::of(inode.kind()))
}

/// Returns an error if `ino`, to which a name in `dir` refers, is `dir` itself. Only corruption
/// causes this. The caller would deadlock if it locked the same directory twice.
pub(crate) fn check_not_itself(ino: Ino, dir: Ino) -> Result<()> {
    if ino == dir {
        let what = "directory entry refers to its own directory";
        return Err(Place::Inode(dir).corrupt(what).into());
    }
    Ok(())
}
