//! Counts the references that the kernel holds to each inode of a writable mount.
//!
//! Model: the counts correspond to `nlookup` of the kernel's FUSE inodes. Each reply that contains a node
//! number adds one to the count, and a `FORGET` request subtracts from it. While the count is not zero, the
//! kernel may use the node even if the file has no name. Therefore the mount holds the inode until the count
//! is zero again: the volume does not free an inode that is held.
//!
//! Cost: 10 to 20 bytes for each node, and the same again in the volume, which counts the holds of inodes.
//! The tables never shrink, so the highest number of nodes so far determines their size. While a table grows,
//! its old and new allocations coexist. If this table and the volume's table of holds grow at once, a node
//! takes up to 62 bytes.
//!
//! Locking: the counts are in shards, and the lock of a shard guards its counts. The hold on an inode is
//! acquired under the lock of its shard. Otherwise another thread could find the count of the node, and
//! subtract from it, before the hold exists. The hold is released without the lock. This is safe because holds
//! are counted: a hold that another thread acquires meanwhile stays.

use larder::Ino;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The number of shards: a power of two that is larger than the usual number of threads.
const SHARDS: usize = 64;

/// The lookup counts of the nodes that the kernel may use.
#[derive(Debug)]
pub(crate) struct Lookups {
    shards: [Mutex<HashMap<u32, u32>>; SHARDS],
}

impl Default for Lookups {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl Lookups {
    fn shard(&self, ino: Ino) -> &Mutex<HashMap<u32, u32>> {
        &self.shards[ino.0 as usize % SHARDS]
    }

    /// Adds one to the count of `ino`. The caller must do this before it sends the reply with the node
    /// number. If the count was zero, calls `hold`, which must hold the inode. If `hold` fails, the count
    /// remains zero, and the caller must reply with the error.
    pub(crate) fn count_lookup(
        &self,
        ino: Ino,
        hold: impl FnOnce(Ino) -> larder::Result<()>,
    ) -> larder::Result<()> {
        match self.shard(ino).lock().entry(ino.0) {
            Entry::Occupied(mut count) => *count.get_mut() = count.get().saturating_add(1),
            Entry::Vacant(none) => {
                hold(ino)?;
                none.insert(1);
            }
        }
        Ok(())
    }

    /// Subtracts `count` from the count of `ino`. Returns true if this makes the count zero: the caller must
    /// then release the inode.
    #[must_use]
    pub(crate) fn forget(&self, ino: Ino, count: u64) -> bool {
        let mut shard = self.shard(ino).lock();
        let Entry::Occupied(mut known) = shard.entry(ino.0) else {
            return false;
        };
        let left = u64::from(*known.get()).saturating_sub(count);
        match u32::try_from(left) {
            // The count has reached its maximum, so the real number is unknown. The inode is held until
            // the connection ends.
            _ if *known.get() == u32::MAX => false,
            Ok(left) if left > 0 => {
                *known.get_mut() = left;
                false
            }
            _ => {
                known.remove();
                true
            }
        }
    }

    /// Removes all counts and returns their inodes, which the caller must release. This is called when the
    /// connection to the kernel has ended.
    pub(crate) fn forget_all(&self) -> Vec<Ino> {
        let shards = self.shards.iter();
        shards
            .flat_map(|shard| std::mem::take(&mut *shard.lock()).into_keys())
            .map(Ino)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn node_is_held_once_until_all_lookups_are_forgotten() {
        let (lookups, held) = (Lookups::default(), RefCell::new(Vec::new()));
        let keep = |ino| {
            held.borrow_mut().push(ino);
            Ok(())
        };
        for _ in 0..3 {
            lookups.count_lookup(Ino(12), keep).unwrap();
        }
        assert_eq!(held.take(), [Ino(12)]);
        assert!(!lookups.forget(Ino(12), 2));
        assert!(lookups.forget(Ino(12), 1));
        lookups.count_lookup(Ino(12), keep).unwrap();
        assert_eq!(held.take(), [Ino(12)]);
    }

    #[test]
    fn node_that_cannot_be_held_is_not_counted() {
        let lookups = Lookups::default();
        let deleted = |ino| Err(larder::Error::NotRegular(ino));
        assert!(lookups.count_lookup(Ino(12), deleted).is_err());
        assert!(!lookups.forget(Ino(12), 1));
    }

    #[test]
    fn saturated_count_is_kept_until_the_end() {
        let lookups = Lookups::default();
        let most = u32::MAX;
        lookups.shard(Ino(12)).lock().insert(12, most - 1);
        for _ in 0..3 {
            lookups.count_lookup(Ino(12), |_| Ok(())).unwrap();
        }
        assert!(!lookups.forget(Ino(12), u64::from(most)));
        assert!(!lookups.forget(Ino(12), 2));
        assert_eq!(lookups.forget_all(), [Ino(12)]);
    }

    #[test]
    fn node_without_lookups_is_not_released() {
        assert!(!Lookups::default().forget(Ino(12), 1));
    }

    #[test]
    fn all_nodes_are_released_at_the_end() {
        let (lookups, held) = (Lookups::default(), RefCell::new(Vec::new()));
        let keep = |ino| {
            held.borrow_mut().push(ino);
            Ok(())
        };
        for number in 11..300 {
            lookups.count_lookup(Ino(number), keep).unwrap();
        }
        let mut all = lookups.forget_all();
        all.sort_unstable_by_key(|ino| ino.0);
        assert_eq!(all, held.take());
        assert!(lookups.forget_all().is_empty());
    }
}
