//! Tracks the entries of the kernel's caches that are known to be cached, from the recorded events.

use larder_cache::tape::CacheKind;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// An entry of a kernel cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub cache: CacheKind,
    pub device: u32,
    /// The inode, for pages and inodes.
    pub inode: u64,
    /// The page index, or the block number of a buffer.
    pub index: u64,
}

/// The set of entries known to be cached.
///
/// # Cost
/// Pages of a file with adjacent indexes share a word. A file that is cached completely needs about one byte
/// for each page; an inode needs 50 bytes.
#[derive(Debug, Default)]
pub(super) struct Resident(HashMap<Key, u64>);

impl Resident {
    /// Adds `key`, and returns whether it was absent.
    pub(super) fn insert(&mut self, key: Key) -> bool {
        let (word, bit) = split(key);
        let bits = self.0.entry(word).or_default();
        let is_new = *bits & bit == 0;
        *bits |= bit;
        is_new
    }

    /// Removes `key`, and returns whether it was present.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        let (word, bit) = split(key);
        let Entry::Occupied(mut entry) = self.0.entry(word) else {
            return false;
        };
        let was_there = entry.get() & bit != 0;
        *entry.get_mut() &= !bit;
        if *entry.get() == 0 {
            entry.remove();
        }
        was_there
    }

    /// Returns whether `key` is present.
    pub(super) fn contains(&self, key: Key) -> bool {
        let (word, bit) = split(key);
        self.0.get(&word).is_some_and(|bits| bits & bit != 0)
    }
}

fn split(key: Key) -> (Key, u64) {
    let index = key.index / 64;
    (Key { index, ..key }, 1 << (key.index % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_inserted_entry_is_resident_until_its_removal() {
        let mut resident = Resident::default();
        let key = |index| Key {
            cache: CacheKind::Page,
            device: 1,
            inode: 2,
            index,
        };
        assert!(resident.insert(key(64)));
        assert!(!resident.insert(key(64)));
        assert!(!resident.contains(key(65)) && !resident.contains(key(0)));
        assert!(!resident.remove(key(65)));
        assert!(resident.remove(key(64)));
        assert!(!resident.remove(key(64)));
        assert!(resident.0.is_empty());
    }
}
