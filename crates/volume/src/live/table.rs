//! The table of inodes in use, and what is known of each.

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

/// Parts of the table, each with its lock.
const SHARDS: usize = 64;

/// The most clean inodes that stay in the table for a while although no operation needs them.
pub(super) const MOST_IDLE: usize = 4096;

/// A part of the table.
#[derive(Debug, Default)]
struct Shard {
    inodes: HashMap<Ino, Arc<LiveInode>>,
    /// How many uses that outlast an operation each inode has: none that has 0.
    holds: HashMap<Ino, u32>,
    /// Inodes whose deletion began.
    deleting: HashSet<Ino>,
    /// Inodes that are idle, or were: the first is the next to go.
    idle: VecDeque<Ino>,
}

/// The inodes in use.
#[derive(Debug)]
pub(crate) struct LiveInodes {
    /// Held while the tree of directories changes its shape, before all other locks.
    renames: Mutex<()>,
    shards: Box<[Mutex<Shard>]>,
    /// How many inodes are held: all keys of `holds`.
    held: ChargedCount,
}

/// An inode in use.
#[derive(Debug)]
pub(crate) struct LiveInode {
    pub(super) ino: Ino,
    /// Names of a directory: shared to look them up, exclusive to change them. Content and
    /// attributes of other files: exclusive to change them, shared to read what is no page.
    pub(crate) rw: RwLock<()>,
    /// Held during one write-back, and to cut the file.
    pub(crate) writeback: Mutex<()>,
    /// Shared while pages are filled, exclusive to change the mapping.
    pub(crate) map: RwLock<()>,
    pub(super) state: Mutex<LiveState>,
    /// Whether it is among the idle ones of its shard, whose lock is held to change it.
    is_listed: AtomicBool,
}

/// What is known of an inode in use.
#[derive(Debug, Default)]
pub(crate) struct LiveState {
    /// As handles left it; `None` if nobody has asked yet.
    pub(super) image: Option<Inode>,
    /// The size, where it is not the image's.
    pub(super) size_bytes: Option<u64>,
    /// Changes of content and inode that no handle has written.
    pub(super) times: Option<Times>,
    /// Content that is not on the device.
    pub(crate) dirty: Dirty,
    /// The transactions that fsync and fdatasync have to wait for. `None` since the inode is in
    /// use: they take the running one.
    pub(super) sync: Option<Tid>,
    pub(super) data_sync: Option<Tid>,
    /// It had content and was cut to nothing: what is written to it is written back at once, until
    /// somebody made it durable, so that no commit shows it empty for longer than its
    /// writer has it so.
    pub(crate) is_replaced: bool,
}

/// When the content, and the inode, were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
}

impl LiveInodes {
    /// None. Those that will be held take the memory of up to `most_frames` frames of `frame_bytes`,
    /// which `charge` gives up.
    pub(crate) fn new(charge: Arc<dyn Charge>, most_frames: u32, frame_bytes: u64) -> Self {
        Self {
            renames: Mutex::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            held: ChargedCount::new(charge, most_frames.into(), frame_bytes),
        }
    }

    /// Keeps the tree of directories as it is.
    pub(crate) fn lock_renames(&self) -> MutexGuard<'_, ()> {
        self.renames.lock()
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, Shard> {
        self.shards[ino.0 as usize % SHARDS].lock()
    }

    /// One more use of `ino` that outlasts an operation. False if its deletion began.
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

    /// Ends `count` such uses. False if there are others.
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

    /// How many inodes are in the table, and how many are held.
    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        let shards = self.shards.iter().map(|shard| shard.lock());
        shards.fold((0, 0), |(inodes, held), shard| {
            (inodes + shard.inodes.len(), held + shard.holds.len())
        })
    }

    /// Nobody can hold `ino` until [`Live::forget`](super::Live::forget). False if somebody does.
    #[must_use]
    pub(crate) fn begin_deletion(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino);
        let is_held = shard.holds.contains_key(&ino);
        if !is_held {
            shard.deleting.insert(ino);
        }
        !is_held
    }

    /// The inode `ino`, in use until [`LiveInodes::end_use`].
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

    /// Ends a use of `inode`, which leaves the table if it was the last one and nothing has to be
    /// remembered.
    pub(super) fn end_use(&self, inode: &Arc<LiveInode>) {
        let mut shard = self.shard(inode.ino);
        // The table's and this one: nobody else can come by another but through the shard.
        if Arc::strong_count(inode) > 2 {
            return;
        }
        let is_held = shard.holds.contains_key(&inode.ino);
        let state = inode.state.lock();
        if !state.is_idle(is_held) {
            return;
        }
        if is_held && state.has_sync_tids() {
            shard.keep_for_a_while(inode);
        } else {
            shard.inodes.remove(&inode.ino);
        }
    }

    /// The deletion of `ino` is over.
    pub(super) fn end_deletion(&self, ino: Ino) {
        self.shard(ino).deleting.remove(&ino);
    }
}

impl LiveState {
    /// Whether the image says all that is known.
    pub(super) fn is_clean(&self) -> bool {
        self.size_bytes.is_none() && self.times.is_none() && self.dirty.is_empty()
    }

    /// Whether nothing is known that cannot be found out again.
    fn is_idle(&self, is_held: bool) -> bool {
        // What has no names cannot be told from what is deleted by its inode on the image.
        let is_orphan = self.image.is_some_and(|image| image.links() == 0);
        self.is_clean() && !is_orphan && !(is_held && self.is_replaced)
    }

    /// Whether it is known which transactions fsync waits for.
    fn has_sync_tids(&self) -> bool {
        self.sync.is_some() || self.data_sync.is_some()
    }

    /// The size that the image has, if anybody has asked.
    pub(super) fn image_size(&self) -> Option<u64> {
        self.image.map(|image| image.size_bytes())
    }

    /// As handles left it, if anybody has asked.
    pub(crate) fn loaded(&self) -> Option<Inode> {
        self.image
    }

    /// `image` with the times of what was written since.
    pub(super) fn with_times(&self, mut image: Inode) -> Inode {
        if let Some(times) = self.times {
            image.set_mtime(times.modified);
            image.set_ctime(times.changed);
        }
        image
    }
}

impl Shard {
    /// Keeps `inode`, which is idle, until enough others are: fsync waits for the running transaction
    /// then, rather than for the last one that changed it.
    fn keep_for_a_while(&mut self, inode: &LiveInode) {
        if inode.is_listed.swap(true, Relaxed) {
            return;
        }
        self.idle.push_back(inode.ino);
        if self.idle.len() <= MOST_IDLE / SHARDS {
            return;
        }
        let Some(first) = self.idle.pop_front() else {
            return;
        };
        let is_held = self.holds.contains_key(&first);
        if let Some(inode) = self.inodes.get(&first) {
            inode.is_listed.store(false, Relaxed);
            // The table's alone: its state is not locked.
            if Arc::strong_count(inode) == 1 && inode.state.lock().is_idle(is_held) {
                self.inodes.remove(&first);
            }
        }
    }
}
