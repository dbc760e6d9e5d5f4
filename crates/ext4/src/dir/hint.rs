//! Where a linear directory has room: what earlier searches learned.
//!
//! # Model
//! The kernel searches a linear directory from its start for every new name. Here a small
//! table says of the directories that are being filled before which block the search found
//! nothing. It only ever saves work: what it says of blocks before is made true again when a
//! name is removed there, and wrong at worst in that room is not used.
//!
//! # Cost
//! 16 bytes a directory, at most [`DIRECTORIES`] of them; forgotten all together when full.

use crate::Ino;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Directories that are remembered.
const DIRECTORIES: usize = 1024;

/// From which block on a directory may have room for a record of so many bytes.
#[derive(Clone, Copy, Debug)]
struct Hint {
    block: u32,
    wanted_bytes: usize,
}

/// Hints for the directories that were added to last.
#[derive(Debug, Default)]
pub(crate) struct RoomHints {
    by_ino: Mutex<HashMap<Ino, Hint>>,
}

impl RoomHints {
    /// The block from which on to search `dir` for room for `wanted_bytes`.
    pub(super) fn first_block(&self, dir: Ino, wanted_bytes: usize) -> u32 {
        let by_ino = self.by_ino.lock();
        by_ino
            .get(&dir)
            .filter(|hint| hint.wanted_bytes <= wanted_bytes)
            .map_or(0, |hint| hint.block)
    }

    /// No block of `dir` before `block` has room for `wanted_bytes`.
    pub(super) fn learn(&self, dir: Ino, block: u32, wanted_bytes: usize) {
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

    /// A name was removed from block `block` of `dir`.
    pub(super) fn freed(&self, dir: Ino, block: u32) {
        if let Some(hint) = self.by_ino.lock().get_mut(&dir) {
            hint.block = hint.block.min(block);
        }
    }

    /// `dir` is another directory than the one that had its number before.
    pub(super) fn forget(&self, dir: Ino) {
        self.by_ino.lock().remove(&dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_for_less_than_was_sought_starts_at_the_first_block() {
        let hints = RoomHints::default();
        hints.learn(Ino(12), 5, 40);
        assert_eq!(hints.first_block(Ino(12), 40), 5);
        assert_eq!(hints.first_block(Ino(12), 264), 5);
        assert_eq!(hints.first_block(Ino(12), 12), 0);
        assert_eq!(hints.first_block(Ino(13), 40), 0);
    }

    #[test]
    fn removal_before_the_hint_moves_it_back() {
        let hints = RoomHints::default();
        hints.learn(Ino(12), 5, 40);
        hints.freed(Ino(12), 7);
        assert_eq!(hints.first_block(Ino(12), 40), 5);
        hints.freed(Ino(12), 2);
        assert_eq!(hints.first_block(Ino(12), 40), 2);
        hints.forget(Ino(12));
        assert_eq!(hints.first_block(Ino(12), 40), 0);
    }
}
