//! The orphans of the image, in memory.

use crate::ondisk::checksum::Crc32c;
use crate::{FsBlock, Ino};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};

/// The cached orphans, if they have been read from the image.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    pub(super) known: Mutex<Option<Known>>,
}

/// The orphans of the image.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The first inode of the list.
    pub(super) head: Option<Ino>,
    pub(super) list: HashMap<Ino, Neighbours>,
    pub(super) file: HashMap<Ino, Slot>,
    pub(super) free_slots: BTreeSet<Slot>,
    /// The seed of the checksums of the orphan file's blocks, if these blocks have checksums.
    pub(super) file_seed: Option<Crc32c>,
}

/// The neighbors of an orphan in the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    pub(super) previous: Option<Ino>,
    pub(super) next: Option<Ino>,
}

/// A slot in the orphan file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) block: FsBlock,
    pub(super) index: usize,
}

impl Orphans {
    /// Drops the cached orphans, so that they are read again. Called when a handle that changed
    /// them is undone.
    pub(crate) fn invalidate(&self) {
        *self.known.lock() = None;
    }
}

impl Known {
    /// Returns the orphans in the order in which their deletion or truncation must be finished.
    pub(super) fn all(&self) -> Vec<Ino> {
        let mut all = Vec::new();
        let mut next = self.head;
        while let Some(ino) = next {
            all.push(ino);
            next = self.list.get(&ino).and_then(|at| at.next);
        }
        let mut in_file: Vec<_> = self.file.iter().collect();
        in_file.sort_unstable_by_key(|(_, slot)| **slot);
        all.extend(in_file.into_iter().map(|(ino, _)| *ino));
        all
    }
}
