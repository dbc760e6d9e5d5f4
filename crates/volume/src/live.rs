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
//! stay there only for what fsync has to know, at most [`MOST_IDLE`](table::MOST_IDLE).
//!
//! # Locking
//! `rw`, `writeback` and `map` in this order, before the handle; what each is for, the design of
//! writing says (`docs/design/writing.md`). The state's lock is held for a look, or while the
//! inode is loaded, and is taken under a handle too. The locks of the table's shards are innermost,
//! but for the state of an inode that only the table has.

mod charged;
mod promises;
mod table;
#[cfg(test)]
mod tests;

use crate::dirty::DirtyFiles;
use crate::{Error, ErrorsMode, Ino, Result};
use larder_cache::Caches;
use larder_cache::page::PageKey;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{FileBlock, FileKind, Filesystem, Handle, Inode, Place, Tid};
use parking_lot::{MutexGuard, RwLockWriteGuard};
use std::ops::{Deref, Range};
use std::sync::Arc;
use table::{LiveInode, Times};
pub(crate) use table::{LiveInodes, LiveState};

/// The inodes of a volume: those in the image, as they are now, and those in use. What reads and
/// what writes content share them, and know nothing of each other.
#[derive(Debug)]
pub(crate) struct Inodes {
    pub(crate) fs: Filesystem,
    pub(crate) caches: Caches,
    /// Those in use, if the volume was opened for writing.
    pub(crate) live: Option<LiveInodes>,
    pub(crate) dirty_files: DirtyFiles,
    /// What happens when the image turns out to be damaged.
    pub(crate) errors: ErrorsMode,
}

/// An inode in use, for one operation.
#[derive(Debug)]
pub(crate) struct Live<'r> {
    pub(crate) inodes: &'r Inodes,
    table: &'r LiveInodes,
    inode: Arc<LiveInode>,
}

impl Inodes {
    /// The inode `ino`, to be changed.
    pub(crate) fn live(&self, ino: Ino) -> Result<Live<'_>> {
        let table = self.live.as_ref();
        let table = table.ok_or(larder_ext4::Error::ReadOnly(None))?;
        if belongs_to_file_system(self.fs.superblock(), ino) {
            let what = "a name leads to it, but it belongs to the file system itself";
            return Err(Place::Inode(ino).corrupt(what).into());
        }
        Ok(self.in_use(table, ino))
    }

    /// The inode `ino` as it is now.
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

    pub(crate) fn page_bytes(&self) -> u64 {
        self.caches.pages.page_bytes() as u64
    }

    /// Blocks of a page: at least 1.
    pub(crate) fn blocks_per_page(&self) -> u64 {
        (self.page_bytes() >> self.block_size_log2()).max(1)
    }

    pub(crate) fn block_size_log2(&self) -> u8 {
        self.fs.superblock().block_size_log2
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.fs.superblock().block_size_bytes())
    }

    /// The blocks that `bytes` touch.
    pub(crate) fn blocks_touched(&self, bytes: &Range<u64>) -> Range<u64> {
        let block_bytes = self.block_bytes();
        bytes.start / block_bytes..bytes.end.div_ceil(block_bytes)
    }

    /// How the first of `blocks` are mapped.
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

    /// The inode `ino` of `table`.
    pub(crate) fn in_use<'r>(&'r self, table: &'r LiveInodes, ino: Ino) -> Live<'r> {
        Live {
            inodes: self,
            table,
            inode: table.begin_use(ino),
        }
    }

    /// Calls `run` with the present state of `inode`, whose mapping does not change meanwhile. Pages
    /// that are filled by it must be complete when `run` returns.
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

    /// Calls `run` with the present state of inode `ino`, and on a volume that is written to with
    /// its `rw` shared: names, attributes and links stay as they are meanwhile.
    pub(crate) fn with_inode<R>(
        &self,
        ino: Ino,
        run: impl FnOnce(&Inode) -> Result<R>,
    ) -> Result<R> {
        let Some(table) = &self.live else {
            return run(&self.inode(ino)?);
        };
        let live = self.in_use(table, ino);
        let _stays = live.rw.read();
        run(&live.peek()?)
    }

    /// If `error`, of a change of the image, says that the image is damaged, does what `errors=`
    /// says.
    ///
    /// Model: `ext4_handle_error`.
    pub(crate) fn handle_damage(&self, error: &Error) {
        let Error::Ext4(error @ larder_ext4::Error::Corrupt(_)) = error else {
            return;
        };
        if !self.fs.is_writable() {
            return;
        }
        tracing::error!(%error, "the image is damaged");
        match self.errors {
            ErrorsMode::Continue => {
                if let Err(error) = self.fs.record_damage(error) {
                    tracing::error!(%error, "recording the damage failed");
                }
            }
            ErrorsMode::RemountReadOnly | ErrorsMode::Abort => self.fs.abort(error),
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
        let inodes = &self.inodes.caches.inodes;
        let image = match inodes.get(ino.0) {
            // Idle until now: what is present is what is on the image.
            Some(words) => Inode::from_words(ino, words),
            None => self.inodes.fs.inode(ino)?,
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
        self.inodes
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

    /// Changes the inode, and what hangs below it, in one handle with `credits`, and writes it. With
    /// `rw` held exclusively.
    pub(crate) fn change<R>(
        &self,
        credits: u32,
        change: impl FnOnce(&mut Handle<'_>, &mut Inode) -> Result<R>,
    ) -> Result<R> {
        let fs = &self.inodes.fs;
        let mut handle = fs.start(credits)?;
        // Behind the start: write-back changes inodes too.
        let mut inode = self.inode()?;
        let changed = change(&mut handle, &mut inode)?;
        fs.write_inode(&mut handle, &inode)?;
        // Before the stop, for the same reason.
        self.publish(&handle, &inode);
        handle.stop();
        Ok(changed)
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

    /// As [`Live::publish`], where reading the content of a file back needs nothing of it.
    pub(crate) fn publish_attributes(&self, handle: &Handle<'_>, inode: &Inode) {
        if inode.is_directory() {
            return self.publish(handle, inode);
        }
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
        let dirty_files = &self.inodes.dirty_files;
        dirty_files.remove(self.ino(), 0, state.is_clean());
        self.refresh(state);
    }

    /// Puts the present state into the inode cache. `state` is loaded.
    pub(crate) fn refresh(&self, state: &mut LiveState) {
        let inodes = &self.inodes.caches.inodes;
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
        self.inodes.dirty_files.add(self.ino(), more, was_clean);
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
        self.inodes.fs.ensure(is_held, what)?;
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
        let inodes = self.inodes;
        let per_page = inodes.blocks_per_page();
        for run in cleaned {
            for index in state.dirty.pages_left(run, per_page).into_iter().flatten() {
                inodes.caches.pages.set_clean(key(self.ino(), index));
            }
        }
        inodes
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
        self.inodes.dirty_files.add(self.ino(), 0, was_clean);
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
        self.discard_all_pages();
        self.mark_clean(0..u64::MAX);
        self.state().size_bytes = None;
    }

    /// Drops the `pages`, whatever they hold.
    pub(crate) fn discard_pages(&self, pages: Range<u64>) {
        let ino = self.ino().0.into();
        self.inodes.caches.pages.discard_range(ino, pages);
    }

    /// Drops the pages of a regular file; behind its end, none can be but zeros.
    fn discard_all_pages(&self) {
        let end_bytes = match self.peek() {
            Ok(inode) if inode.kind() == FileKind::Regular => inode.size_bytes(),
            Ok(_) => 0,
            Err(_) => u64::MAX,
        };
        self.discard_pages(0..end_bytes.div_ceil(self.inodes.page_bytes()));
    }

    /// The inode was deleted, or its making undone: nothing of it is known any more. Its pages are
    /// gone already, but for those that somebody still read: `map` is held exclusively if there
    /// can be any.
    pub(crate) fn forget(&self) {
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
        self.table.end_use(&self.inode);
    }
}

/// Whether no name may lead to an inode: who wrote to the journal as to a file would destroy it.
fn belongs_to_file_system(sb: &Superblock, ino: Ino) -> bool {
    let is_reserved = ino.0 < sb.first_ino.0 && ino != Ino::ROOT;
    is_reserved
        || [sb.journal_ino, sb.orphan_file_ino].contains(&ino)
        || sb.quota_inos.contains(&ino)
}

/// That `present` is the file that had its number when `before` was read.
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
