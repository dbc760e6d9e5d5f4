//! The table of inodes in use, with the state of each inode. An inode is in use while an operation
//! refers to it, or while it has state that must not be lost. The table also keeps some idle inodes,
//! so that fsync need not wait for the running transaction.

use super::charged::ChargedCount;
use crate::dirty::Dirty;
use crate::{Ino, Result};
use larder_cache::table::Charge;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{Inode, MemoryOnly, Tid};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The number of shards of the table. Each shard has its own lock.
const SHARDS: usize = 64;

/// The maximum number of idle inodes in the table. An inode is idle if no operation uses it, and it
/// stays in the table only because fsync needs the number of its last transaction.
pub(super) const MAX_IDLE: usize = 4096;

/// A shard of the table.
#[derive(Debug, Default)]
struct Shard {
    inodes: HashMap<Ino, Arc<LiveInode>>,
    /// The number of holds of each inode that has any. A hold is a reference from an open file or
    /// the kernel, which outlasts an operation.
    holds: HashMap<Ino, u32>,
    /// Inodes whose deletion has begun.
    deleting: HashSet<Ino>,
    /// Inodes that became idle, in the order in which they became idle. Operations may have begun
    /// to use some of them again.
    idle: VecDeque<Ino>,
}

/// The table of inodes in use.
#[derive(Debug)]
pub(crate) struct LiveInodes {
    /// Held while a rename changes the directory tree. Locked before all other locks.
    renames: Mutex<()>,
    shards: Box<[Mutex<Shard>]>,
    /// The number of inodes with holds: the keys of `holds` in all shards.
    held: ChargedCount,
    /// The number of deletions that have begun.
    deletions: AtomicU64,
}

/// An inode in use.
#[derive(Debug)]
pub(crate) struct LiveInode {
    pub(super) ino: Ino,
    /// Held exclusively to change the names in a directory, the content of a file, or attributes.
    /// Held shared to read a directory, extended attributes, the target of a symbolic link, or
    /// content that is stored in the inode. Other reads do not need this lock.
    pub(crate) rw: RwLock<()>,
    /// Held during a write-back, a truncation, or another change of the mapping.
    pub(crate) writeback: Mutex<()>,
    /// Held shared while pages are filled, and exclusively to change the mapping. A request
    /// in flight can keep the lock, even after the thread that took the lock and submitted the
    /// request has returned.
    pub(crate) map: Arc<RwLock<()>>,
    pub(super) state: Mutex<LiveState>,
    /// Whether the inode is in the `idle` list of its shard. Changed only with the shard locked.
    is_listed: AtomicBool,
}

/// The state of an inode in use.
#[derive(Debug, Default)]
pub(crate) struct LiveState {
    /// The inode as handles last wrote it, or `None` before it is first loaded.
    pub(super) image: Option<Inode>,
    /// The present size, if it differs from the size in `image`.
    pub(super) size_bytes: Option<u64>,
    /// The times of the last change, if no handle has written them.
    pub(super) times: Option<Times>,
    /// The content that is not on the device yet.
    pub(crate) dirty: Dirty,
    /// The transaction that fsync must wait for. `None` if it is not known: fsync then
    /// waits for the running transaction.
    pub(super) sync: Option<Tid>,
    /// The transaction that fdatasync must wait for. `None` if it is not known.
    pub(super) data_sync: Option<Tid>,
    /// Whether the file had content when it was truncated to zero, and has not been synced since
    /// then. The content of each write to such a file is written back before the write returns. The
    /// next commit then contains the new content instead of an empty file (`auto_da_alloc`).
    pub(crate) is_replaced: bool,
}

/// The times of the last change of the content and of the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
}

impl LiveInodes {
    /// Creates an empty table. For the memory of inodes with holds, `charge` gives up at most
    /// `most_frames` frames of `frame_bytes` bytes each.
    pub(crate) fn new(charge: Arc<dyn Charge>, most_frames: u32, frame_bytes: u64) -> Self {
        Self {
            renames: Mutex::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            held: ChargedCount::new(charge, most_frames.into(), frame_bytes),
            deletions: AtomicU64::new(0),
        }
    }

    /// Returns the number of deletions that have begun.
    pub(super) fn deletions(&self) -> u64 {
        // A lookup that begins after the call sees what was changed before these deletions.
        self.deletions.load(Acquire)
    }

    /// Takes the lock for renames. While it is held, no other thread moves a directory, or moves a
    /// file from one directory to another.
    ///
    /// # Errors
    /// [`WouldWait`](larder_ext4::Error::WouldWait).
    pub(crate) fn lock_renames(&self) -> Result<MutexGuard<'_, ()>> {
        let renames = &self.renames;
        Ok(MemoryOnly::lock(|| renames.try_lock(), || renames.lock())?)
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, Shard> {
        self.shards[ino.0 as usize % SHARDS].lock()
    }

    /// Adds a hold to `ino`, and returns true. Returns false, without a hold, if the deletion of
    /// `ino` has begun.
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

    /// Removes `count` holds of `ino`. Returns true if no holds remain.
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

    /// Returns the number of inodes in the table, and the number of inodes with holds.
    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        let shards = self.shards.iter().map(|shard| shard.lock());
        shards.fold((0, 0), |(inodes, held), shard| {
            (inodes + shard.inodes.len(), held + shard.holds.len())
        })
    }

    /// Starts the deletion of `ino` and returns true, or returns false if `ino` has holds. After
    /// the start, no thread can hold the inode until [`Live::drop_state`](super::Live::drop_state)
    /// or [`Live::end_deletion`](super::Live::end_deletion) is called.
    #[must_use]
    pub(crate) fn begin_deletion(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino);
        let is_held = shard.holds.contains_key(&ino);
        if !is_held {
            shard.deleting.insert(ino);
            self.deletions.fetch_add(1, Release);
        }
        !is_held
    }

    /// Returns the inode `ino`, after adding it to the table if necessary. The caller must end the
    /// use with [`LiveInodes::end_use`].
    pub(super) fn begin_use(&self, ino: Ino) -> Arc<LiveInode> {
        let mut shard = self.shard(ino);
        let inode = shard.inodes.entry(ino).or_insert_with(|| {
            Arc::new(LiveInode {
                ino,
                rw: RwLock::default(),
                writeback: Mutex::default(),
                map: Arc::default(),
                state: Mutex::default(),
                is_listed: AtomicBool::default(),
            })
        });
        Arc::clone(inode)
    }

    /// Ends a use of `inode`. If this was the last use, removes the inode from the table, unless
    /// the inode has state that must be kept.
    pub(super) fn end_use(&self, inode: &Arc<LiveInode>) {
        let mut shard = self.shard(inode.ino);
        // The table and the caller have one reference each. No thread can get another reference
        // while the shard is locked.
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
    /// Returns whether handles have written the whole state.
    pub(super) fn is_clean(&self) -> bool {
        self.size_bytes.is_none() && self.times.is_none() && self.dirty.is_empty()
    }

    /// Returns whether the inode can leave the table. Does not consider the transactions that fsync
    /// waits for. `is_held` specifies whether the inode has holds.
    fn is_idle(&self, is_held: bool) -> bool {
        // An inode without names must stay: on the image, it cannot be distinguished from a deleted
        // inode.
        let is_orphan = self.image.is_some_and(|image| image.links() == 0);
        self.is_clean() && !is_orphan && !(is_held && self.is_replaced)
    }

    /// Returns whether a transaction is recorded that fsync or fdatasync must wait for.
    fn has_sync_tids(&self) -> bool {
        self.sync.is_some() || self.data_sync.is_some()
    }

    /// Returns the size in `image`, or `None` if the inode is not loaded.
    pub(super) fn image_size(&self) -> Option<u64> {
        self.image.map(|image| image.size_bytes())
    }

    /// Returns the inode as handles last wrote it, or `None` if it is not loaded.
    pub(crate) fn loaded(&self) -> Option<Inode> {
        self.image
    }

    /// Returns `image` with the times of writes that no handle has written yet.
    pub(super) fn with_times(&self, mut image: Inode) -> Inode {
        if let Some(times) = self.times {
            image.set_mtime(times.modified);
            image.set_ctime(times.changed);
        }
        image
    }
}

impl Shard {
    /// Appends `inode` to the list of idle inodes, unless it is already in the list. If the list is
    /// then too long, removes the first inode from the list, and also from the table if it is still
    /// idle. A later fsync of that inode waits for the running transaction, instead of the last
    /// transaction that changed the inode.
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
            // If only the table refers to the inode, no thread has locked its state.
            if Arc::strong_count(inode) == 1 && inode.state.lock().is_idle(is_held) {
                self.inodes.remove(&first);
            }
        }
    }
}
