//! The table of inodes in use, and their state.

use super::charged::ChargedCount;
use crate::Ino;
use crate::dirty::Dirty;
use larder_cache::table::Charge;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{Inode, Tid};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The number of shards of the table, each with its own lock.
const SHARDS: usize = 64;

/// The maximum number of clean inodes that stay in the table while no operation uses them.
pub(super) const MAX_IDLE: usize = 4096;

/// A shard of the table.
#[derive(Debug, Default)]
struct Shard {
    inodes: HashMap<Ino, Arc<LiveInode>>,
    /// The number of uses of each inode that outlast an operation. Inodes with 0 are removed.
    holds: HashMap<Ino, u32>,
    /// Inodes whose deletion has begun.
    deleting: HashSet<Ino>,
    /// Inodes that are idle, or were. The first is removed next.
    idle: VecDeque<Ino>,
}

/// The inodes in use.
#[derive(Debug)]
pub(crate) struct LiveInodes {
    /// Held while the shape of the directory tree changes. Taken before all other locks.
    renames: Mutex<()>,
    shards: Box<[Mutex<Shard>]>,
    /// The number of inodes that are held: all keys of `holds`.
    held: ChargedCount,
}

/// An inode in use.
#[derive(Debug)]
pub(crate) struct LiveInode {
    pub(super) ino: Ino,
    /// For a directory, protects the names: shared for a lookup, exclusive for a change. For other
    /// files, exclusive for changes of content and attributes, and shared for reads that bypass
    /// pages.
    pub(crate) rw: RwLock<()>,
    /// Held during one write-back, and while the file is truncated.
    pub(crate) writeback: Mutex<()>,
    /// Shared while pages are filled, exclusive for changes of the mapping.
    pub(crate) map: RwLock<()>,
    pub(super) state: Mutex<LiveState>,
    /// Whether it is in the `idle` list of its shard. Changed under the shard's lock.
    is_listed: AtomicBool,
}

/// The state of an inode in use.
#[derive(Debug, Default)]
pub(crate) struct LiveState {
    /// The inode as handles last wrote it; `None` until it is first needed.
    pub(super) image: Option<Inode>,
    /// The size, if it differs from the image's.
    pub(super) size_bytes: Option<u64>,
    /// Times of changes that no handle has written.
    pub(super) times: Option<Times>,
    /// Content that is not on the device.
    pub(crate) dirty: Dirty,
    /// The transactions that fsync and fdatasync must wait for. `None` if the inode has not changed
    /// since it entered the table: they then wait for the running one.
    pub(super) sync: Option<Tid>,
    pub(super) data_sync: Option<Tid>,
    /// Whether the file had content and was truncated to zero. Each write to it is then written
    /// back before it returns, until the file is synced. Thus no commit shows the file empty for
    /// longer than its writer leaves it empty.
    pub(crate) is_replaced: bool,
}

/// The times when the content, and the inode, were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
}

impl LiveInodes {
    /// Creates an empty table. The inodes that will be held take the memory of up to `most_frames`
    /// frames of `frame_bytes`, which `charge` gives up.
    pub(crate) fn new(charge: Arc<dyn Charge>, most_frames: u32, frame_bytes: u64) -> Self {
        Self {
            renames: Mutex::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            held: ChargedCount::new(charge, most_frames.into(), frame_bytes),
        }
    }

    /// Prevents changes in the shape of the directory tree.
    pub(crate) fn lock_renames(&self) -> MutexGuard<'_, ()> {
        self.renames.lock()
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, Shard> {
        self.shards[ino.0 as usize % SHARDS].lock()
    }

    /// Adds a use of `ino` that outlasts an operation. Returns false if its deletion has begun.
    #[must_use]
    pub(crate) fn hold(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino);
        if shard.deleting.contains(&ino) {
            return false;
        }
        let count = shard.holds.entry(ino).or_default();
        *count = count.saturating_add(1);
        let is_settling_due = *count == 1 && self.held.increment();
        drop(shard);
        if is_settling_due {
            self.held.settle();
        }
        true
    }

    /// Removes `count` such uses. Returns false if others remain.
    pub(crate) fn release(&self, ino: Ino, count: u64) -> bool {
        let mut shard = self.shard(ino);
        if let Entry::Occupied(mut holds) = shard.holds.entry(ino) {
            let left = u64::from(*holds.get()).saturating_sub(count);
            if let Some(left) = u32::try_from(left).ok().filter(|left| *left > 0) {
                *holds.get_mut() = left;
                return false;
            }
            holds.remove();
            let is_settling_due = self.held.decrement();
            drop(shard);
            if is_settling_due {
                self.held.settle();
            }
        }
        true
    }

    /// Returns the number of inodes in the table, and the number that are held.
    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        let shards = self.shards.iter().map(|shard| shard.lock());
        shards.fold((0, 0), |(inodes, held), shard| {
            (inodes + shard.inodes.len(), held + shard.holds.len())
        })
    }

    /// Starts the deletion of `ino` unless it is held. Then no thread can hold it until
    /// [`Live::drop_state`](super::Live::drop_state). Returns false if it is held.
    #[must_use]
    pub(crate) fn begin_deletion(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino);
        let is_held = shard.holds.contains_key(&ino);
        if !is_held {
            shard.deleting.insert(ino);
        }
        !is_held
    }

    /// Returns the inode `ino`, which is in use until [`LiveInodes::end_use`].
    pub(super) fn begin_use(&self, ino: Ino) -> Arc<LiveInode> {
        let mut shard = self.shard(ino);
        let inode = shard.inodes.entry(ino).or_insert_with(|| {
            Arc::new(LiveInode {
                ino,
                rw: RwLock::default(),
                writeback: Mutex::default(),
                map: RwLock::default(),
                state: Mutex::default(),
                is_listed: AtomicBool::default(),
            })
        });
        Arc::clone(inode)
    }

    /// Ends a use of `inode`, and removes it from the table if this was the last use and it has no
    /// state to keep.
    pub(super) fn end_use(&self, inode: &Arc<LiveInode>) {
        let mut shard = self.shard(inode.ino);
        // One reference is the table's, one is this one. A new one requires the lock of the shard.
        if Arc::strong_count(inode) > 2 {
            return;
        }
        let is_held = shard.holds.contains_key(&inode.ino);
        let state = inode.state.lock();
        if !state.is_idle(is_held) {
            return;
        }
        if is_held && state.has_sync_tids() {
            shard.keep_idle(inode);
        } else {
            shard.inodes.remove(&inode.ino);
        }
    }

    /// Records that the deletion of `ino` ended.
    pub(super) fn end_deletion(&self, ino: Ino) {
        self.shard(ino).deleting.remove(&ino);
    }
}

impl LiveState {
    /// Returns whether the image contains the whole state.
    pub(super) fn is_clean(&self) -> bool {
        self.size_bytes.is_none() && self.times.is_none() && self.dirty.is_empty()
    }

    /// Returns whether the state contains nothing that cannot be read from the image again.
    fn is_idle(&self, is_held: bool) -> bool {
        // On the image, an inode without names looks the same as a deleted one.
        let is_orphan = self.image.is_some_and(|image| image.links() == 0);
        self.is_clean() && !is_orphan && !(is_held && self.is_replaced)
    }

    /// Returns whether the transactions that fsync waits for are known.
    fn has_sync_tids(&self) -> bool {
        self.sync.is_some() || self.data_sync.is_some()
    }

    /// Returns the size on the image, if the inode was loaded.
    pub(super) fn image_size(&self) -> Option<u64> {
        self.image.map(|image| image.size_bytes())
    }

    /// Returns the inode as handles last wrote it, if it was loaded.
    pub(crate) fn loaded(&self) -> Option<Inode> {
        self.image
    }

    /// Returns `image` with the times of later writes.
    pub(super) fn with_times(&self, mut image: Inode) -> Inode {
        if let Some(times) = self.times {
            image.set_mtime(times.modified);
            image.set_ctime(times.changed);
        }
        image
    }
}

impl Shard {
    /// Keeps `inode`, which is idle, until enough others are idle. After that, fsync waits for the
    /// running transaction instead of the last one that changed the inode.
    fn keep_idle(&mut self, inode: &LiveInode) {
        if inode.is_listed.swap(true, Relaxed) {
            return;
        }
        self.idle.push_back(inode.ino);
        if self.idle.len() <= MAX_IDLE / SHARDS {
            return;
        }
        let Some(first) = self.idle.pop_front() else {
            return;
        };
        let is_held = self.holds.contains_key(&first);
        if let Some(inode) = self.inodes.get(&first) {
            inode.is_listed.store(false, Relaxed);
            // Only the table refers to it, so its state is not locked.
            if Arc::strong_count(inode) == 1 && inode.state.lock().is_idle(is_held) {
                self.inodes.remove(&first);
            }
        }
    }
}
