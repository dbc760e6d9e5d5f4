//! In-memory inodes of a volume that is open for writing ("live" inodes): their locks, and the
//! changes that are not on the image yet.
//!
//! Model: the kernel's `struct inode` with `ext4_inode_info`: `i_rwsem`, `i_data_sem`,
//! `i_disksize`, `i_sync_tid` and `i_datasync_tid`. One difference: a reader copies the attributes of an
//! inode from the inode cache if the cache contains them. The reader uses the live inode only to load the
//! attributes, or to take a lock. A volume that is open only for reading has no live inodes.
//!
//! # Two views of an inode
//! - [`Live::inode`] is the state that the next handle writes. Its size does not include dirty
//!   content past the size on the image.
//! - [`Live::present`] is the state that stat(2) reports. Its size and block count include dirty
//!   content. The inode cache holds this state.
//!
//! # How to change an inode
//! ```text
//! let live = volume.live(ino)?;
//! let _exclusive = live.rw.write();      // for several inodes: lock_exclusively
//! let (handle, inode) = fs.change(credits, |handle| {
//!     let mut inode = live.inode()?;     // load it only now: until the handle was open, write-back could change it
//!     ...                                // change it and its blocks
//!     fs.write_inode(handle, &inode)?;
//!     Ok(inode)
//! })?;
//! live.publish(&handle, &inode);         // before `handle.stop()`: afterwards, write-back can change the inode
//! handle.stop();
//! ```
//! If the closure fails, the handle undoes its changes, and nothing is published. The handle also undoes its
//! changes if the closure needs a block that is not in memory. After the block has been read, the closure is
//! called again. Therefore the closure may change only what the handle undoes.
//!
//! # Holds
//! A hold is a reference that prevents the deletion of an inode. The table counts the holds of each inode.
//! Each open file has a hold, and so has each node that the kernel refers to. Both store an inode number, and
//! use the number again in later operations. An inode without names is deleted when it has no holds. An inode
//! number without a hold may be stale: the inode may have been deleted, and the number may belong to another
//! file, with another generation.
//!
//! # Invariants
//! 1. For each inode, the inode cache contains either the present state or no entry.
//! 2. The table contains every inode that is dirty, locked, or without names but not deleted yet.
//! 3. An inode whose deletion has begun has no holds, and cannot get one.
//!
//! # Cost
//! An inode with holds has an entry in the table of hold counts, and a node in the mount's table. Each of the two takes
//! 10 to 20 bytes. While these tables grow, they take more. Therefore the caches give up 64 bytes for each inode with
//! holds (see [`charged`]). An inode in the table of inodes in use takes about 450 bytes. An inode is idle if no
//! operation uses it, and it stays in that table only because fsync needs the number of its last transaction. The table
//! keeps at most [`MAX_IDLE`](table::MAX_IDLE) idle inodes.
//!
//! # Locking
//! A thread locks `rw`, `writeback` and `map` in this order, before it opens a handle.
//! `docs/design/writing.md` describes the purpose of each lock. A thread may lock `state` while it has a
//! handle open. It holds `state` only for a short access, or to load the inode from memory. A shard of the
//! table is locked last. There is one exception: a thread that has locked a shard may lock the `state` of an
//! inode to which no other thread refers.

mod charged;
mod clean;
mod reservations;
mod table;
#[cfg(test)]
mod tests;

use crate::dirty::DirtyFiles;
use crate::{Error, ErrorsMode, Ino, Result};
use larder_cache::Caches;
use larder_cache::page::PageKey;
use larder_cache::tape::Tape;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{FileBlock, FileKind, Filesystem, Handle, Inode, MemoryOnly, Place, Tid};
use parking_lot::{ArcRwLockReadGuard, MutexGuard, RawRwLock, RwLockReadGuard, RwLockWriteGuard};
use std::ops::{Deref, Range};
use std::sync::Arc;
use table::{LiveInode, Times};
pub(crate) use table::{LiveInodes, LiveState};

/// The file system, its caches, and the inodes in use. `Reader`, `WriteBack` and `Writer` share
/// this structure. The reader does not depend on the other two.
#[derive(Debug)]
pub(crate) struct Inodes {
    pub(crate) fs: Filesystem,
    pub(crate) caches: Caches,
    /// The table of inodes in use, if the volume was opened for writing.
    pub(crate) live: Option<LiveInodes>,
    pub(crate) dirty_files: DirtyFiles,
    /// The action when corruption of the image is detected.
    pub(crate) errors: ErrorsMode,
    /// Whether metadata is read ahead ([`crate::tree_ahead`]).
    pub(crate) reads_trees_ahead: bool,
    /// The tape that records the names of files, if there is one.
    pub(crate) names_tape: Option<Arc<dyn Tape>>,
}

/// A reference of one operation to an inode in use. Dropping the reference ends this use.
#[derive(Debug)]
pub(crate) struct Live<'r> {
    pub(crate) inodes: &'r Inodes,
    table: &'r LiveInodes,
    inode: Arc<LiveInode>,
}

impl Inodes {
    /// Returns the live inode `ino`, for a change. Fails for inodes that are reserved for the file
    /// system.
    pub(crate) fn live(&self, ino: Ino) -> Result<Live<'_>> {
        let table = self.live.as_ref();
        let table = table.ok_or(larder_ext4::Error::ReadOnly(None))?;
        if belongs_to_file_system(self.fs.superblock(), ino) {
            let what =
                "a directory entry refers to this inode, which is reserved for the file system";
            return Err(Place::Inode(ino).corrupt(what).into());
        }
        Ok(self.in_use(table, ino))
    }

    /// Returns the present state of the inode `ino`.
    pub(crate) fn inode(&self, ino: Ino) -> Result<Inode> {
        let inodes = &self.caches.inodes;
        if let Some(words) = inodes.get(ino.0) {
            return Ok(Inode::from_words(ino, words));
        }
        if let Some(table) = &self.live {
            return self.in_use(table, ino).present();
        }
        let inode = self.fs.inode(ino)?;
        inodes.insert(ino.0, &inode.words());
        Ok(inode)
    }

    /// Returns the number of deletions that have begun. As long as it does not change, each inode number that was looked
    /// up still belongs to the same file.
    pub(crate) fn deletions(&self) -> u64 {
        self.live.as_ref().map_or(0, LiveInodes::deletions)
    }

    pub(crate) fn page_bytes(&self) -> u64 {
        self.caches.pages.page_bytes() as u64
    }

    /// Returns the number of blocks in a page, at least 1.
    pub(crate) fn blocks_per_page(&self) -> u64 {
        (self.page_bytes() >> self.block_size_log2()).max(1)
    }

    pub(crate) fn block_size_log2(&self) -> u8 {
        self.fs.superblock().block_size_log2
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.fs.superblock().block_size_bytes())
    }

    /// Returns the blocks that `bytes` touch.
    pub(crate) fn blocks_touched(&self, bytes: &Range<u64>) -> Range<u64> {
        let block_bytes = self.block_bytes();
        bytes.start / block_bytes..bytes.end.div_ceil(block_bytes)
    }

    /// Returns the mapping of the first run of `blocks`: the blocks at the start that are
    /// contiguous on the device, or are a hole.
    pub(crate) fn mapping(
        &self,
        inode: &Inode,
        blocks: Range<u64>,
    ) -> Result<larder_ext4::Mapping> {
        let too_large = |_| larder_ext4::Error::FileTooLarge(inode.ino());
        let start = u32::try_from(blocks.start).map_err(too_large)?;
        let most = u32::try_from(blocks.end - blocks.start).unwrap_or(u32::MAX);
        Ok(self.fs.map(inode, FileBlock(start), most)?)
    }

    /// Returns the live inode `ino`, and adds it to `table` if necessary.
    pub(crate) fn in_use<'r>(&'r self, table: &'r LiveInodes, ino: Ino) -> Live<'r> {
        Live {
            inodes: self,
            table,
            inode: table.begin_use(ino),
        }
    }

    /// Calls `run` with the present state of `inode`. The mapping does not change during the call.
    /// `run` must complete the pages that it fills before it returns.
    pub(crate) fn with_mapping<R>(
        &self,
        inode: &Inode,
        run: impl FnOnce(&Inode) -> Result<R>,
    ) -> Result<R> {
        let Some(table) = &self.live else {
            return run(inode);
        };
        self.in_use(table, inode.ino()).with_mapping(|present| {
            check_same_file(inode, present)?;
            run(present)
        })
    }

    /// Returns the present state of `inode`, and a guard. The mapping of the inode does not change
    /// while the guard exists. A volume that is not open for writing needs no guard.
    ///
    /// If another thread is changing the mapping, waits for it if `can_wait` is true, and otherwise
    /// returns `None`. A thread that has a page pinned must not wait, because the other thread may
    /// be waiting until the page is unpinned.
    pub(crate) fn stable_mapping(
        self: &Arc<Self>,
        inode: &Inode,
        can_wait: bool,
    ) -> Result<Option<(Inode, Option<StableMapping>)>> {
        let Some(table) = &self.live else {
            return Ok(Some((*inode, None)));
        };
        let live = self.in_use(table, inode.ino());
        let map = if can_wait {
            Some(live.map.read_arc())
        } else {
            live.map.try_read_arc()
        };
        let Some(map) = map else {
            return Ok(None);
        };
        let present = live.peek()?;
        check_same_file(inode, &present)?;
        let guard = StableMapping {
            _map: map,
            _in_use: InUse {
                inodes: Arc::clone(self),
                inode: Arc::clone(&live.inode),
            },
        };
        Ok(Some((present, Some(guard))))
    }

    /// Calls `run` with the present state of inode `ino`. On a volume that is open for writing,
    /// this thread holds `rw` shared during the call, so names, attributes and link targets do not
    /// change.
    pub(crate) fn with_inode<R>(
        &self,
        ino: Ino,
        run: impl FnOnce(&Inode) -> Result<R>,
    ) -> Result<R> {
        let Some(table) = &self.live else {
            return run(&self.inode(ino)?);
        };
        let live = self.in_use(table, ino);
        let _shared = live.lock_shared()?;
        run(&live.peek()?)
    }

    /// If `error` reports corruption of the image, acts as `errors=` specifies. `error` must be the
    /// error of an operation that changes the image.
    ///
    /// Model: `ext4_handle_error`.
    pub(crate) fn handle_damage(&self, error: &Error) {
        let Error::Ext4(error @ larder_ext4::Error::Corrupt(_)) = error else {
            return;
        };
        // An operation that missed a block in memory is repeated. Its error may be a result of the
        // missing block.
        if !self.fs.is_writable() || MemoryOnly::has_missed() {
            return;
        }
        tracing::error!(%error, "detected corruption of the image");
        // The corruption must be recorded now, even if this thread waits for the device: the
        // operation is not repeated.
        let _may_wait = MemoryOnly::suspend();
        match self.errors {
            ErrorsMode::Continue => {
                if let Err(error) = self.fs.record_damage(error) {
                    tracing::error!(%error, "cannot record the corruption in the superblock");
                }
            }
            ErrorsMode::RemountReadOnly | ErrorsMode::Abort => self.fs.abort(error),
        }
    }
}

/// Holds the `map` lock of an inode shared. Any thread can release the lock, by dropping this
/// guard.
#[derive(Debug)]
pub(crate) struct StableMapping {
    _map: ArcRwLockReadGuard<RawRwLock, ()>,
    // This field must be the last. It is then dropped last, so the inode stays in the table until
    // the lock is released.
    _in_use: InUse,
}

/// A use of an inode that can outlast the operation that began it.
#[derive(Debug)]
struct InUse {
    inodes: Arc<Inodes>,
    inode: Arc<LiveInode>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(table) = &self.inodes.live {
            table.end_use(&self.inode);
        }
    }
}

impl Deref for Live<'_> {
    type Target = LiveInode;

    fn deref(&self) -> &LiveInode {
        &self.inode
    }
}

impl Live<'_> {
    /// Returns the inode number.
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
        let inodes = &self.inodes.caches.inodes;
        let image = match inodes.get(ino.0) {
            // The inode was not in use until now, so its present state equals its state on the
            // image.
            Some(words) => Inode::from_words(ino, words),
            None => self.inodes.fs.inode(ino)?,
        };
        state.image = Some(image);
        Ok(image)
    }

    /// Loads the inode if necessary, and locks the state. A thread with an open handle may need this lock,
    /// so the device is not read while the state is locked.
    pub(crate) fn loaded(&self) -> Result<MutexGuard<'_, LiveState>> {
        let state = self.state();
        if state.image.is_some() {
            return Ok(state);
        }
        drop(state);
        self.inodes.fs.without_waiting(|| {
            let mut state = self.state();
            self.load(&mut state)?;
            Ok(state)
        })
    }

    /// Returns the inode as the next handle must write it. A caller that changes the inode must
    /// open the handle before this call.
    pub(crate) fn inode(&self) -> Result<Inode> {
        let mut state = self.loaded()?;
        let image = self.load(&mut state)?;
        Ok(state.with_times(image))
    }

    /// Returns the present state of the inode, and inserts it into the inode cache.
    pub(crate) fn present(&self) -> Result<Inode> {
        let mut state = self.loaded()?;
        let present = self.present_in(&mut state)?;
        self.inodes
            .caches
            .inodes
            .insert(self.ino().0, &present.words());
        Ok(present)
    }

    /// Returns the present state of the inode without inserting it into the inode cache.
    pub(crate) fn peek(&self) -> Result<Inode> {
        self.present_in(&mut *self.loaded()?)
    }

    /// Calls `run` with the present state. The mapping does not change during the call. `run` must
    /// complete the pages that it fills before it returns.
    pub(crate) fn with_mapping<R>(&self, run: impl FnOnce(&Inode) -> Result<R>) -> Result<R> {
        let _shared = self.lock_mapping()?;
        run(&self.peek()?)
    }

    /// Locks `rw` exclusively.
    ///
    /// # Errors
    /// [`WouldWait`](larder_ext4::Error::WouldWait).
    pub(crate) fn lock(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        let rw = &self.inode.rw;
        Ok(MemoryOnly::lock(|| rw.try_write(), || rw.write())?)
    }

    /// Locks `rw` shared.
    ///
    /// # Errors
    /// [`WouldWait`](larder_ext4::Error::WouldWait).
    pub(crate) fn lock_shared(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let rw = &self.inode.rw;
        Ok(MemoryOnly::lock(|| rw.try_read(), || rw.read())?)
    }

    /// Locks `writeback`.
    ///
    /// # Errors
    /// [`WouldWait`](larder_ext4::Error::WouldWait).
    pub(crate) fn lock_write_back(&self) -> Result<MutexGuard<'_, ()>> {
        let writeback = &self.inode.writeback;
        Ok(MemoryOnly::lock(
            || writeback.try_lock(),
            || writeback.lock(),
        )?)
    }

    /// Locks `map` shared, so that the mapping does not change.
    ///
    /// # Errors
    /// [`WouldWait`](larder_ext4::Error::WouldWait).
    pub(crate) fn lock_mapping(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let map = &self.inode.map;
        Ok(MemoryOnly::lock(|| map.try_read(), || map.read())?)
    }

    /// Locks `map` exclusively, for a change of the mapping. The caller must already hold the other
    /// locks that the change requires.
    ///
    /// # Errors
    /// [`Error::Deadline`](larder_block::Error::Deadline) if a read of the file does not end within
    /// the device's timeout, and [`WouldWait`](larder_ext4::Error::WouldWait).
    pub(crate) fn change_mapping(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        let map = &self.inode.map;
        let buffers = &self.inodes.caches.buffers;
        match buffers.timeout() {
            Some(timeout) if !MemoryOnly::is_active() => map
                .try_write_for(timeout)
                .ok_or_else(|| buffers.timed_out().into()),
            _ => Ok(MemoryOnly::lock(|| map.try_write(), || map.write())?),
        }
    }

    /// Returns whether the page cache has content in `bytes` that is not on the device.
    pub(crate) fn is_dirty_in(&self, bytes: Range<u64>) -> bool {
        let log2 = self.inodes.block_size_log2();
        let blocks = bytes.start >> log2..(bytes.end.saturating_sub(1) >> log2) + 1;
        self.state().dirty.blocks.intersects(blocks)
    }

    pub(crate) fn present_in(&self, state: &mut LiveState) -> Result<Inode> {
        let image = self.load(state)?;
        let mut present = state.with_times(image);
        if let Some(size_bytes) = state.size_bytes {
            present.set_size_bytes(size_bytes);
        }
        if !state.dirty.delayed.is_empty() {
            let block_size_bytes = self.inodes.fs.superblock().block_size_bytes();
            let delayed = i64::try_from(state.dirty.delayed.len()).unwrap_or(i64::MAX);
            present.add_blocks(delayed, block_size_bytes, true);
        }
        Ok(present)
    }

    /// Opens a handle with `credits`, calls `change` with the inode, writes the inode, and
    /// publishes it. If `change` needs a block that is not in memory, calls it again after the
    /// block has been read. The caller must hold `rw` exclusively.
    pub(crate) fn change<R>(
        &self,
        credits: u32,
        mut change: impl FnMut(&mut Handle<'_>, &mut Inode) -> Result<R>,
    ) -> Result<R> {
        let fs = &self.inodes.fs;
        let (handle, (inode, changed)) = fs.change(credits, |handle| -> Result<_> {
            // Load the inode only now: until the handle was open, write-back could change the inode.
            let mut inode = self.inode()?;
            let changed = change(handle, &mut inode)?;
            fs.write_inode(handle, &inode)?;
            Ok((inode, changed))
        })?;
        // Publish before `handle.stop`: afterwards, write-back can change the inode.
        self.publish(&handle, &inode);
        handle.stop();
        Ok(changed)
    }

    /// Publishes `inode`, which `handle` has written: readers see the new state, and fsync and
    /// fdatasync wait for the handle's transaction. Must be called immediately before the handle
    /// stops. The caller must hold `rw` exclusively.
    pub(crate) fn publish(&self, handle: &Handle<'_>, inode: &Inode) {
        let mut state = self.state();
        state.times = None;
        state.data_sync = Some(handle.tid());
        self.publish_in(&mut state, handle, inode);
    }

    /// Publishes like [`Live::publish`], and sets the present size of the file to `size_bytes`,
    /// which exceeds the size in `inode` if there is dirty content after that size.
    pub(crate) fn publish_size(&self, handle: &Handle<'_>, inode: &Inode, size_bytes: u64) {
        self.state().size_bytes = Some(size_bytes);
        self.publish(handle, inode);
    }

    /// Publishes a change of attributes like [`Live::publish`], except that fdatasync does not wait
    /// for the change. For a directory, fdatasync waits for it.
    pub(crate) fn publish_attributes(&self, handle: &Handle<'_>, inode: &Inode) {
        if inode.is_directory() {
            return self.publish(handle, inode);
        }
        let mut state = self.state();
        state.times = None;
        self.publish_in(&mut state, handle, inode);
    }

    /// Publishes `inode` after write-back has mapped the blocks `mapped`. The caller must hold
    /// `writeback`, and need not hold `rw`. Therefore other threads may write during the
    /// write-back, and this function keeps the sizes and times of their writes.
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
        let dirty_files = &self.inodes.dirty_files;
        dirty_files.remove(self.ino(), 0, state.is_clean());
        self.refresh(state);
    }

    /// Inserts the present state into the inode cache. If the inode cannot be loaded, removes its
    /// entry from the cache.
    pub(crate) fn refresh(&self, state: &mut LiveState) {
        let inodes = &self.inodes.caches.inodes;
        match self.present_in(state) {
            Ok(present) => inodes.insert(self.ino().0, &present.words()),
            Err(_) => drop(inodes.remove(self.ino().0)),
        }
    }

    /// Marks `blocks` of the file as dirty. Blocks that were `expected` become `delayed`.
    /// `end_bytes` is the end of the new content. If it exceeds the size of the file, the size
    /// becomes `end_bytes`. The caller must have exclusive access to the pages, must hold `rw`
    /// exclusively, and must call [`Live::record_write`] afterwards.
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
        self.inodes.dirty_files.add(self.ino(), more, was_clean);
    }

    /// Records that content was written at `now`. The caller must hold `rw` exclusively.
    pub(crate) fn record_write(&self, now: Timestamp) {
        let mut state = self.state();
        let was_clean = state.is_clean();
        state.times = Some(Times {
            modified: now,
            changed: now,
        });
        self.inodes.dirty_files.add(self.ino(), 0, was_clean);
        self.refresh(&mut state);
    }

    /// Returns whether the inode has content, a size or times that no handle has written.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.state().is_clean()
    }

    /// If no transaction is recorded for fsync and fdatasync, records `tid`, which is already committed.
    /// Until the inode changes again, fsync and fdatasync then return without waiting.
    pub(crate) fn set_sync_tid(&self, tid: Tid) {
        let mut state = self.state();
        state.sync.get_or_insert(tid);
        state.data_sync.get_or_insert(tid);
    }

    /// Returns whether the inode has times that no handle has written.
    pub(crate) fn has_times(&self) -> bool {
        self.state().times.is_some()
    }

    /// Returns the transaction that fsync (or, with `data_only`, fdatasync) must wait for, or
    /// `None` if the transaction is unknown.
    pub(crate) fn sync_tid(&self, data_only: bool) -> Option<Tid> {
        let state = self.state();
        if data_only {
            state.data_sync
        } else {
            state.sync
        }
    }

    /// Starts the deletion of the inode and returns true, or returns false if the inode has holds. After
    /// the start, no thread can hold the inode until [`Live::drop_state`] or [`Live::end_deletion`] is
    /// called.
    #[must_use]
    pub(crate) fn begin_deletion(&self) -> bool {
        self.table.begin_deletion(self.ino())
    }

    /// Ends a deletion that will be repeated. The inode keeps its state.
    pub(crate) fn end_deletion(&self) {
        self.table.end_deletion(self.ino());
    }

    /// Discards `pages` and their content.
    pub(crate) fn discard_pages(&self, pages: Range<u64>) {
        let ino = self.ino().0.into();
        self.inodes.caches.pages.discard_range(ino, pages);
    }

    /// Discards the pages of a regular file up to the end of the file. Pages past the end contain
    /// only zeros, and are not discarded.
    fn discard_all_pages(&self) {
        let end_bytes = match self.peek() {
            Ok(inode) if inode.kind() == FileKind::Regular => inode.size_bytes(),
            Ok(_) => 0,
            Err(_) => u64::MAX,
        };
        self.discard_pages(0..end_bytes.div_ceil(self.inodes.page_bytes()));
    }

    /// Drops all state of an inode that was deleted, or whose deletion failed, and ends the
    /// deletion. The caller must have discarded the content. Discards pages that a concurrent read
    /// has filled since then. If the inode was deleted, the caller must hold `map` exclusively, so
    /// that no further page is filled.
    pub(crate) fn drop_state(&self) {
        self.discard_all_pages();
        let mut state = self.state();
        let fewer = state.dirty.blocks.len();
        self.inodes.dirty_files.remove(self.ino(), fewer, true);
        *state = LiveState::default();
        self.inodes.caches.inodes.remove(self.ino().0);
        drop(state);
        self.table.end_deletion(self.ino());
    }
}

/// Locks `rw` of all `lives` exclusively, in the order of their inode numbers. Because of this
/// order, threads cannot deadlock, even if the directories of a damaged image form a cycle. The
/// same inode may occur twice. The caller must not hold `rw` of any inode.
///
/// # Errors
/// [`WouldWait`](larder_ext4::Error::WouldWait).
pub(crate) fn lock_exclusively<'l, 'r: 'l>(
    lives: impl IntoIterator<Item = &'l Live<'r>>,
) -> Result<Vec<RwLockWriteGuard<'l, ()>>> {
    let mut lives: Vec<_> = lives.into_iter().collect();
    lives.sort_unstable_by_key(|live| live.ino());
    lives.dedup_by_key(|live| live.ino());
    lives.into_iter().map(Live::lock).collect()
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.table.end_use(&self.inode);
    }
}

/// Returns whether `ino` is reserved for the file system, so that no directory entry may refer to it. For
/// example, a write to the journal inode through a name would destroy the journal.
fn belongs_to_file_system(sb: &Superblock, ino: Ino) -> bool {
    let is_reserved = ino.0 < sb.first_ino.0 && ino != Ino::ROOT;
    is_reserved
        || [sb.journal_ino, sb.orphan_file_ino].contains(&ino)
        || sb.quota_inos.contains(&ino)
}

/// Checks that `present` and `before` are states of the same file, by comparing their generations.
/// Returns `ESTALE` if they are not.
pub(crate) fn check_same_file(before: &Inode, present: &Inode) -> Result<()> {
    if before.generation() != present.generation() {
        return Err(larder_ext4::Error::StaleInode(before.ino()).into());
    }
    Ok(())
}

pub(crate) fn key(ino: Ino, index: u64) -> PageKey {
    PageKey {
        ino: ino.0.into(),
        index,
    }
}
