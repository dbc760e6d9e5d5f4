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

/// The orphans that a handle added and removed, in the order of the changes.
#[derive(Debug, Default)]
pub(crate) struct OrphanChanges(Vec<(OrphanChange, Ino)>);

/// A change of the orphans.
#[derive(Clone, Copy, Debug)]
pub(super) enum OrphanChange {
    AddedToFile(Slot),
    RemovedFromFile(Slot),
    AddedToList,
    RemovedFromList(Neighbours),
}

impl Orphans {
    /// Undoes the changes of a handle that was undone.
    pub(crate) fn undo(&self, changes: &mut OrphanChanges) {
        if changes.0.is_empty() {
            return;
        }
        if let Some(known) = self.known.lock().as_mut() {
            while let Some((change, ino)) = changes.0.pop() {
                known.undo(change, ino);
            }
        }
    }
}

impl Known {
    /// Makes a change, and records it in `changes`.
    pub(super) fn apply(&mut self, changes: &mut OrphanChanges, change: OrphanChange, ino: Ino) {
        match change {
            OrphanChange::AddedToFile(slot) => self.add_to_file(ino, slot),
            OrphanChange::RemovedFromFile(slot) => self.remove_from_file(ino, slot),
            OrphanChange::AddedToList => self.insert(
                ino,
                Neighbours {
                    previous: None,
                    next: self.head,
                },
            ),
            OrphanChange::RemovedFromList(neighbours) => self.remove(ino, neighbours),
        }
        changes.0.push((change, ino));
    }

    fn undo(&mut self, change: OrphanChange, ino: Ino) {
        match change {
            OrphanChange::AddedToFile(slot) => self.remove_from_file(ino, slot),
            OrphanChange::RemovedFromFile(slot) => self.add_to_file(ino, slot),
            OrphanChange::AddedToList => {
                if let Some(&neighbours) = self.list.get(&ino) {
                    self.remove(ino, neighbours);
                }
            }
            OrphanChange::RemovedFromList(neighbours) => self.insert(ino, neighbours),
        }
    }

    fn add_to_file(&mut self, ino: Ino, slot: Slot) {
        self.free_slots.remove(&slot);
        self.file.insert(ino, slot);
    }

    fn remove_from_file(&mut self, ino: Ino, slot: Slot) {
        self.file.remove(&ino);
        self.free_slots.insert(slot);
    }

    /// Inserts `ino` between two neighbors in the list.
    fn insert(&mut self, ino: Ino, neighbours: Neighbours) {
        self.list.insert(ino, neighbours);
        self.join(neighbours.previous, Some(ino));
        self.join(Some(ino), neighbours.next);
    }

    /// Removes `ino` from between its neighbors in the list.
    fn remove(&mut self, ino: Ino, Neighbours { previous, next }: Neighbours) {
        self.list.remove(&ino);
        self.join(previous, next);
    }

    /// Makes `next` follow `previous` in the list. `None` stands for the start of the list as
    /// `previous`, and for its end as `next`.
    fn join(&mut self, previous: Option<Ino>, next: Option<Ino>) {
        if let Some(next) = next.and_then(|next| self.list.get_mut(&next)) {
            next.previous = previous;
        }
        match previous.and_then(|previous| self.list.get_mut(&previous)) {
            Some(previous) => previous.next = next,
            None => self.head = next,
        }
    }

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
