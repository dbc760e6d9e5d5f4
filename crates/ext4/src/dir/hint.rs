//! Hints for free space in linear directories, from earlier searches.
//!
//! # Model
//! For every new name, the kernel searches a linear directory for space from its start. Here, a
//! small table records, for each directory to which names were recently added, the block where the
//! next search starts: no block before it had enough space. Removing a name from an earlier block
//! moves the hint back to that block. At worst, a wrong hint leaves space unused.
//!
//! # Cost
//! About 25 bytes for each of at most [`DIRECTORIES`] directories. All hints are discarded when the table is
//! full.

use crate::Ino;
use parking_lot::Mutex;
use std::collections::HashMap;

/// The maximum number of directories in the table.
const DIRECTORIES: usize = 1024;

/// The first block of a directory that may have space for a record of the given length.
#[derive(Clone, Copy, Debug)]
struct Hint {
    block: u32,
    wanted_bytes: usize,
}

/// Hints for the directories to which names were added recently.
#[derive(Debug, Default)]
pub(crate) struct RoomHints {
    by_ino: Mutex<HashMap<Ino, Hint>>,
}

impl RoomHints {
    /// Returns the block at which to start the search of `dir` for `wanted_bytes` of space.
    pub(super) fn first_block(&self, dir: Ino, wanted_bytes: usize) -> u32 {
        let by_ino = self.by_ino.lock();
        by_ino
            .get(&dir)
            .filter(|hint| hint.wanted_bytes <= wanted_bytes)
            .map_or(0, |hint| hint.block)
    }

    /// Records that no block of `dir` before `block` has `wanted_bytes` of space.
    pub(super) fn record(&self, dir: Ino, block: u32, wanted_bytes: usize) {
        let mut by_ino = self.by_ino.lock();
        if by_ino.len() >= DIRECTORIES {
            by_ino.clear();
        }
        let hint = Hint {
            block,
            wanted_bytes,
        };
        by_ino.insert(dir, hint);
    }

    /// Records that a name was removed from block `block` of `dir`.
    pub(super) fn record_removal(&self, dir: Ino, block: u32) {
        if let Some(hint) = self.by_ino.lock().get_mut(&dir) {
            hint.block = hint.block.min(block);
        }
    }

    /// Discards the hint for `dir`, whose number now belongs to another directory.
    pub(super) fn remove(&self, dir: Ino) {
        self.by_ino.lock().remove(&dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_for_less_room_starts_at_the_first_block() {
        let hints = RoomHints::default();
        hints.record(Ino(12), 5, 40);
        assert_eq!(hints.first_block(Ino(12), 40), 5);
        assert_eq!(hints.first_block(Ino(12), 264), 5);
        assert_eq!(hints.first_block(Ino(12), 12), 0);
        assert_eq!(hints.first_block(Ino(13), 40), 0);
    }

    #[test]
    fn removal_before_the_hint_moves_it_back() {
        let hints = RoomHints::default();
        hints.record(Ino(12), 5, 40);
        hints.record_removal(Ino(12), 7);
        assert_eq!(hints.first_block(Ino(12), 40), 5);
        hints.record_removal(Ino(12), 2);
        assert_eq!(hints.first_block(Ino(12), 40), 2);
        hints.remove(Ino(12));
        assert_eq!(hints.first_block(Ino(12), 40), 0);
    }
}
