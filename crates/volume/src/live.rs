//! Inodes in use on a volume that is written to: their locks, and what the image does not know yet.
//!
//! Model: the kernel's `struct inode` with `ext4_inode_info`: `i_rwsem`, `i_data_sem`,
//! `i_disksize`, `i_sync_tid` and `i_datasync_tid`. Different from it, the inode cache holds
//! copies for readers; this is where they come from. A volume opened for reading has none of
//! this.
//!
//! # Two views of an inode
//! - [`Live::inode`] is what the next handle writes: its size ends where content is on the image.
//! - [`Live::present`] is what stat(2) tells: with the size and the blocks that only dirty pages
//!   know of. It is what the inode cache holds.
//!
//! # How to change an inode
//! ```text
//! let live = volume.live(ino)?;
//! let _alone = live.rw.write();          // of several inodes: lock_exclusively
//! let mut handle = fs.start(credits)?;
//! let mut inode = live.inode()?;         // behind the start: write-back changes inodes too
//! ...                                    // change it, and what hangs below it
//! fs.write_inode(&mut handle, &inode)?;
//! live.publish(&handle, &inode);         // before the stop, for the same reason
//! handle.stop();
//! ```
//! Where something fails in between, nothing was published, and the handle undoes the rest.
//!
//! # Who keeps an inode
//! A caller that keeps a number from one operation to the next holds it: open files, and nodes
//! that the kernel knows. A hold is a count and nothing else. An inode without names is deleted
//! when nobody holds it; until then its number belongs to it. A number that is not held may be
//! stale: its inode is deleted, or its number another file's, of another generation.
//!
//! # Invariants
//! 1. The inode cache holds the present state of an inode, or nothing.
//! 2. An inode that is dirty, locked, or without names and not deleted yet is in the table.
//! 3. Nobody holds an inode whose deletion began, or can.
//!
//! # Cost
//! 10 to 20 bytes for an inode that is held, which the caches make room for, and some 450 for one that is in the table. Clean ones
//! stay there only for what fsync has to know, at most [`MOST_IDLE`].
//!
//! # Locking
//! `rw`, `writeback` and `map` in this order, before the handle; what each is for, the design of
//! writing says (`docs/design/writing.md`). The state's lock is held for a look, or while the
//! inode is loaded, and is taken under a handle too. The locks of the table's shards are innermost,
//! but for the state of an inode that only the table has.

mod charged;
#[cfg(test)]
mod tests;

use crate::dirty::Dirty;
use crate::read::{Reader, key};
use crate::{Ino, Result};
use charged::ChargedCount;
use larder_cache::table::Charge;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{FileKind, Handle, Inode, Tid};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Parts of the table, each with its lock.
const SHARDS: usize = 64;

/// The most clean inodes that stay in the table for a while although no operation needs them.
const MOST_IDLE: usize = 4096;

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
    ino: Ino,
    /// Names of a directory: shared to look them up, exclusive to change them. Content and
    /// attributes of other files: exclusive to change them, shared to read what is no page.
    pub(crate) rw: RwLock<()>,
    /// Held during one write-back, and to cut the file.
    pub(crate) writeback: Mutex<()>,
    /// Shared while pages are filled, exclusive to change the mapping.
    pub(crate) map: RwLock<()>,
    state: Mutex<LiveState>,
    /// Whether it is among the idle ones of its shard, whose lock is held to change it.
    is_listed: AtomicBool,
}

/// What is known of an inode in use.
#[derive(Debug, Default)]
pub(crate) struct LiveState {
    /// As handles left it; `None` if nobody has asked yet.
    image: Option<Inode>,
    /// The size, where it is not the image's.
    size_bytes: Option<u64>,
    /// Changes of content and inode that no handle has written.
    times: Option<Times>,
    /// Content that is not on the device.
    pub(crate) dirty: Dirty,
    /// The transactions that fsync and fdatasync have to wait for. `None` since the inode is in
    /// use: they take the running one.
    sync: Option<Tid>,
    data_sync: Option<Tid>,
    /// It had content and was cut to nothing: what is written to it is written back at once, until
    /// somebody made it durable, so that no commit shows it empty for longer than its
    /// writer has it so.
    pub(crate) is_replaced: bool,
}

/// When the content, and the inode, were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    modified: Timestamp,
    changed: Timestamp,
}

/// An inode in use, for one operation.
#[derive(Debug)]
pub(crate) struct Live<'r> {
    pub(crate) reader: &'r Reader,
    table: &'r LiveInodes,
    inode: Arc<LiveInode>,
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
    fn count(&self) -> (usize, usize) {
        let shards = self.shards.iter().map(|shard| shard.lock());
        shards.fold((0, 0), |(inodes, held), shard| {
            (inodes + shard.inodes.len(), held + shard.holds.len())
        })
    }

    /// Nobody can hold `ino` until [`Live::forget`]. False if somebody does.
    #[must_use]
    pub(crate) fn begin_deletion(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino);
        let is_held = shard.holds.contains_key(&ino);
        if !is_held {
            shard.deleting.insert(ino);
        }
        !is_held
    }

    /// The inode `ino`, in use from now on.
    pub(crate) fn get<'r>(&'r self, reader: &'r Reader, ino: Ino) -> Live<'r> {
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
        Live {
            reader,
            table: self,
            inode: Arc::clone(inode),
        }
    }
}

impl LiveState {
    /// Whether the image says all that is known.
    fn is_clean(&self) -> bool {
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
    fn image_size(&self) -> Option<u64> {
        self.image.map(|image| image.size_bytes())
    }

    /// As handles left it, if anybody has asked.
    pub(crate) fn loaded(&self) -> Option<Inode> {
        self.image
    }

    /// `image` with the times of what was written since.
    fn with_times(&self, mut image: Inode) -> Inode {
        if let Some(times) = self.times {
            image.set_mtime(times.modified);
            image.set_ctime(times.changed);
        }
        image
    }
}

impl Deref for Live<'_> {
    type Target = LiveInode;

    fn deref(&self) -> &LiveInode {
        &self.inode
    }
}

impl Live<'_> {
    /// Its number.
    pub(crate) fn ino(&self) -> Ino {
        self.inode.ino
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, LiveState> {
        self.inode.state.lock()
    }

    fn load(&self, state: &mut LiveState) -> Result<Inode> {
        if let Some(image) = state.image {
            return Ok(image);
        }
        let ino = self.ino();
        let inodes = &self.reader.caches.inodes;
        let image = match inodes.get(ino.0) {
            // Idle until now: what is present is what is on the image.
            Some(words) => Inode::from_words(ino, words),
            None => self.reader.fs.inode(ino)?,
        };
        state.image = Some(image);
        Ok(image)
    }

    /// The inode as the next handle is to write it. Asked for with the handle open, if it is to be
    /// changed.
    pub(crate) fn inode(&self) -> Result<Inode> {
        let mut state = self.state();
        let image = self.load(&mut state)?;
        Ok(state.with_times(image))
    }

    /// The inode as it is now.
    pub(crate) fn present(&self) -> Result<Inode> {
        let mut state = self.state();
        let present = self.present_in(&mut state)?;
        self.reader
            .caches
            .inodes
            .insert(self.ino().0, &present.words());
        Ok(present)
    }

    /// As [`Live::present`], past the inode cache.
    pub(crate) fn peek(&self) -> Result<Inode> {
        self.present_in(&mut self.state())
    }

    /// Calls `run` with the present state, whose mapping stays meanwhile. Pages that are filled by it
    /// must be complete when it returns.
    pub(crate) fn with_mapping<R>(&self, run: impl FnOnce(&Inode) -> Result<R>) -> Result<R> {
        let _stays = self.inode.map.read();
        run(&self.peek()?)
    }

    /// Whether the page cache has content in `bytes` that the device lacks.
    pub(crate) fn is_dirty_in(&self, bytes: Range<u64>) -> bool {
        let log2 = self.reader.fs.superblock().block_size_log2;
        let blocks = bytes.start >> log2..(bytes.end.saturating_sub(1) >> log2) + 1;
        let state = self.state();
        state.dirty.blocks.runs_in(blocks).next().is_some()
    }

    pub(crate) fn present_in(&self, state: &mut LiveState) -> Result<Inode> {
        let image = self.load(state)?;
        let mut present = state.with_times(image);
        if let Some(size_bytes) = state.size_bytes {
            present.set_size_bytes(size_bytes);
        }
        let delayed = state.dirty.delayed_blocks();
        if delayed > 0 {
            let block_size_bytes = self.reader.fs.superblock().block_size_bytes();
            let delayed = i64::try_from(delayed).unwrap_or(i64::MAX);
            present.add_blocks(delayed, block_size_bytes, true);
        }
        Ok(present)
    }

    /// `handle`, about to stop, has written `inode`: fsync and fdatasync wait for its transaction,
    /// and readers get it. With `rw` held exclusively.
    pub(crate) fn publish(&self, handle: &Handle<'_>, inode: &Inode) {
        let mut state = self.state();
        state.times = None;
        state.data_sync = Some(handle.tid());
        self.publish_in(&mut state, handle, inode);
    }

    /// As [`Live::publish`], and the file is `size_bytes` long from now on, whatever was written to
    /// it: more than `inode` says if what is dirty reaches further.
    pub(crate) fn publish_size(&self, handle: &Handle<'_>, inode: &Inode, size_bytes: u64) {
        self.state().size_bytes = Some(size_bytes);
        self.publish(handle, inode);
    }

    /// As [`Live::publish`], where reading the content back needs nothing of it: not for
    /// directories.
    pub(crate) fn publish_attributes(&self, handle: &Handle<'_>, inode: &Inode) {
        let mut state = self.state();
        state.times = None;
        self.publish_in(&mut state, handle, inode);
    }

    /// As [`Live::publish`], with `writeback` held instead of `rw`: what was written since the
    /// handle looked stays. `mapped` are mapped from now on.
    pub(crate) fn publish_written_back(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        mapped: &[Range<u64>],
    ) {
        let mut state = self.state();
        for blocks in mapped {
            state.dirty.delayed.remove(blocks.clone());
            state.dirty.converting.remove(blocks.clone());
        }
        let written = Times {
            modified: inode.mtime(),
            changed: inode.ctime(),
        };
        if state.times == Some(written) {
            state.times = None;
        }
        if !mapped.is_empty() || state.image_size() != Some(inode.size_bytes()) {
            state.data_sync = Some(handle.tid());
        }
        self.publish_in(&mut state, handle, inode);
    }

    fn publish_in(&self, state: &mut LiveState, handle: &Handle<'_>, inode: &Inode) {
        state.image = Some(*inode);
        state.sync = Some(handle.tid());
        if state.size_bytes <= Some(inode.size_bytes()) {
            state.size_bytes = None;
        }
        let dirty_files = &self.reader.dirty_files;
        dirty_files.remove(self.ino(), 0, state.is_clean());
        self.refresh(state);
    }

    /// Puts the present state into the inode cache. `state` is loaded.
    pub(crate) fn refresh(&self, state: &mut LiveState) {
        let inodes = &self.reader.caches.inodes;
        match self.present_in(state) {
            Ok(present) => inodes.insert(self.ino().0, &present.words()),
            Err(_) => drop(inodes.remove(self.ino().0)),
        }
    }

    /// `blocks` of the file have new content in pages that the caller has for himself, up to the
    /// byte `end_bytes` of the file; those that are expected to are delayed now. With `rw` held
    /// exclusively; [`Live::wrote`] follows.
    pub(crate) fn mark_dirty(&self, blocks: Range<u64>, end_bytes: u64) {
        let mut state = self.state();
        let holes: Vec<_> = state.dirty.expected.runs_in(blocks.clone()).collect();
        for hole in holes {
            state.dirty.expected.remove(hole.clone());
            state.dirty.delayed.insert(hole);
        }
        let was_clean = state.is_clean();
        let before = state.dirty.blocks.len();
        state.dirty.blocks.insert(blocks);
        let more = state.dirty.blocks.len() - before;
        if Some(end_bytes) > state.size_bytes.or(state.image_size()) {
            state.size_bytes = Some(end_bytes);
        }
        self.reader.dirty_files.add(self.ino(), more, was_clean);
    }

    /// The content of `blocks` is on the device, or nowhere any more, and their pages are the
    /// caller's: pinned, or gone.
    pub(crate) fn mark_clean(&self, blocks: Range<u64>) {
        let mut state = self.state();
        let delayed = state.dirty.delayed.len();
        self.mark_clean_in(&mut state, blocks);
        if state.dirty.delayed.len() != delayed {
            self.refresh(&mut state);
        }
    }

    /// As [`Live::mark_clean`], by write-back, which holds the blocks since it gathered them.
    pub(crate) fn mark_written_back(&self, blocks: Range<u64>) -> Result<()> {
        let is_held = {
            let state = self.state();
            let writing = state.dirty.writing.as_ref();
            writing.is_some_and(|held| held.start <= blocks.start && blocks.end <= held.end)
        };
        let what = "a block is marked clean that was not held while it was written";
        self.reader.fs.ensure(is_held, what)?;
        self.mark_clean(blocks);
        Ok(())
    }

    fn mark_clean_in(&self, state: &mut LiveState, blocks: Range<u64>) {
        let cleaned: Vec<_> = state.dirty.blocks.runs_in(blocks.clone()).collect();
        let before = state.dirty.blocks.len();
        state.dirty.blocks.remove(blocks.clone());
        state.dirty.delayed.remove(blocks.clone());
        state.dirty.converting.remove(blocks);
        let fewer = before - state.dirty.blocks.len();
        if state.dirty.delayed.is_empty() {
            self.keep_needed(state);
        }
        let reader = self.reader;
        let per_page = reader.page_bytes() >> reader.fs.superblock().block_size_log2;
        for run in cleaned {
            for index in state.dirty.pages_left(run, per_page).into_iter().flatten() {
                reader.caches.pages.set_clean(key(self.ino(), index));
            }
        }
        reader
            .dirty_files
            .remove(self.ino(), fewer, state.is_clean());
    }

    /// Content was written at `now`; with `rw` held exclusively.
    pub(crate) fn wrote(&self, now: Timestamp) {
        let mut state = self.state();
        let was_clean = state.is_clean();
        state.times = Some(Times {
            modified: now,
            changed: now,
        });
        self.reader.dirty_files.add(self.ino(), 0, was_clean);
        self.refresh(&mut state);
    }

    /// Whether something is known that no handle has written.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.state().is_clean()
    }

    /// A commit of `tid` covers what was not known to be durable.
    pub(crate) fn set_sync_tid(&self, tid: Tid) {
        let mut state = self.state();
        state.sync.get_or_insert(tid);
        state.data_sync.get_or_insert(tid);
    }

    /// Whether content or inode were changed at a time that no handle has written.
    pub(crate) fn has_times(&self) -> bool {
        self.state().times.is_some()
    }

    /// The transaction that fsync, or with `data_only` fdatasync, has to wait for; `None` if that
    /// is not known.
    pub(crate) fn sync_tid(&self, data_only: bool) -> Option<Tid> {
        let state = self.state();
        if data_only {
            state.data_sync
        } else {
            state.sync
        }
    }

    /// Nobody can hold it from now on, until [`Live::forget`]. False if somebody does.
    #[must_use]
    pub(crate) fn begin_deletion(&self) -> bool {
        self.table.begin_deletion(self.ino())
    }

    /// Drops content that is in memory only, and all pages: of a file that is deleted, before its
    /// blocks are given up. With `rw` held exclusively.
    pub(crate) fn discard_content(&self) {
        let _alone = self.inode.writeback.lock();
        self.discard_pages();
        self.mark_clean(0..u64::MAX);
        self.state().size_bytes = None;
    }

    /// Drops the pages of a regular file; behind its end, none can be but zeros.
    fn discard_pages(&self) {
        let end_bytes = match self.peek() {
            Ok(inode) if inode.kind() == FileKind::Regular => inode.size_bytes(),
            Ok(_) => 0,
            Err(_) => u64::MAX,
        };
        let pages = 0..end_bytes.div_ceil(self.reader.page_bytes());
        let ino = self.ino().0.into();
        self.reader.caches.pages.discard_range(ino, pages);
    }

    /// The inode was deleted, or its making undone: nothing of it is known any more. Its pages are
    /// gone already, but for those that somebody still read: `map` is held exclusively if there
    /// can be any.
    pub(crate) fn forget(&self) {
        self.discard_pages();
        let mut state = self.state();
        let fewer = state.dirty.blocks.len();
        self.reader.dirty_files.remove(self.ino(), fewer, true);
        *state = LiveState::default();
        self.reader.caches.inodes.remove(self.ino().0);
        drop(state);
        self.table.shard(self.ino()).deleting.remove(&self.ino());
    }
}

/// Locks `rw` of all these exclusively, in the order of their numbers, so that no two threads wait for
/// each other, whatever the directories of a damaged image contain. The same inode may come twice.
/// A thread that holds one `rw` must not lock another.
pub(crate) fn lock_exclusively<'l, 'r: 'l>(
    lives: impl IntoIterator<Item = &'l Live<'r>>,
) -> Vec<RwLockWriteGuard<'l, ()>> {
    let mut lives: Vec<_> = lives.into_iter().collect();
    lives.sort_unstable_by_key(|live| live.ino());
    lives.dedup_by_key(|live| live.ino());
    lives.into_iter().map(|live| live.rw.write()).collect()
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        let mut shard = self.table.shard(self.ino());
        // The table's and this one: nobody else can come by another but through the shard.
        if Arc::strong_count(&self.inode) > 2 {
            return;
        }
        let is_held = shard.holds.contains_key(&self.ino());
        let state = self.inode.state.lock();
        if !state.is_idle(is_held) {
            return;
        }
        if is_held && state.has_sync_tids() {
            shard.keep_for_a_while(&self.inode);
        } else {
            shard.inodes.remove(&self.inode.ino);
        }
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
