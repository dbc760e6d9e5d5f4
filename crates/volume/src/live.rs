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
//! # Invariants
//! 1. The inode cache holds the present state of an inode, or nothing.
//! 2. An inode that is held, dirty or locked is in the table.
//!
//! # Locking
//! `rw`, `writeback` and `map` in this order, before the handle; what each is for, the design of
//! writing says (`docs/design/writing.md`). The state's lock is held for a look, or while the
//! inode is loaded, and is taken under a handle too. The table's locks are innermost.

use crate::dirty::Dirty;
use crate::read::{Reader, key};
use crate::{Ino, Result};
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{FileKind, Handle, Inode, Tid};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Parts of the table, each with its lock.
const SHARDS: usize = 64;

type Shard = Mutex<HashMap<Ino, Arc<LiveInode>>>;

/// The inodes in use.
#[derive(Debug)]
pub(crate) struct LiveInodes {
    /// Held while the tree of directories changes its shape, before all other locks.
    renames: Mutex<()>,
    shards: Box<[Shard]>,
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
    /// Uses by callers that outlast an operation.
    holds: u64,
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
    pub(crate) fn new() -> Self {
        Self {
            renames: Mutex::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Keeps the tree of directories as it is.
    pub(crate) fn lock_renames(&self) -> MutexGuard<'_, ()> {
        self.renames.lock()
    }

    fn shard(&self, ino: Ino) -> &Shard {
        &self.shards[ino.0 as usize % SHARDS]
    }

    /// The inode `ino`, in use from now on.
    pub(crate) fn get<'r>(&'r self, reader: &'r Reader, ino: Ino) -> Live<'r> {
        let mut shard = self.shard(ino).lock();
        let inode = shard.entry(ino).or_insert_with(|| {
            Arc::new(LiveInode {
                ino,
                rw: RwLock::default(),
                writeback: Mutex::default(),
                map: RwLock::default(),
                state: Mutex::default(),
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

    /// Whether it is clean, and nobody needs the inode.
    fn is_idle(&self) -> bool {
        self.holds == 0 && self.is_clean()
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

    /// One more use that outlasts the operation.
    pub(crate) fn hold(&self) {
        let mut state = self.state();
        state.holds = state.holds.saturating_add(1);
    }

    /// Ends `count` such uses; returns how many are left.
    pub(crate) fn release(&self, count: u64) -> u64 {
        let mut state = self.state();
        state.holds = state.holds.saturating_sub(count);
        state.holds
    }

    /// Uses that outlast operations.
    pub(crate) fn holds(&self) -> u64 {
        self.state().holds
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
        *state = LiveState {
            holds: state.holds,
            ..LiveState::default()
        };
        self.reader.caches.inodes.remove(self.ino().0);
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
        let mut shard = self.table.shard(self.ino()).lock();
        // The table's and this one: nobody else can come by another but through the shard.
        if Arc::strong_count(&self.inode) == 2 && self.inode.state.lock().is_idle() {
            shard.remove(&self.inode.ino);
        }
    }
}
