//! A handle: metadata changes that take effect as a whole or not at all.
//!
//! # Model
//! jbd2's `handle_t`. Every metadata change uses a handle, also on images without a journal. Unlike
//! in jbd2, only one handle is open at a time, and a handle can be undone. A handle lasts
//! microseconds of memory accesses; slow work (data, the log, checkpoints) happens outside of it.
//! In return, no operation sees a part of another one's changes. An operation that fails in the
//! middle, because space runs out or a block is damaged, leaves no changes: a handle that is
//! dropped before [`Handle::stop`] undoes everything that it did.
//!
//! # Visibility
//! The changes of a handle are visible as they are made. Readers of an inode, its mapping or its
//! directory are excluded by the caller's locks, which are taken before the handle.
//!
//! # Locking
//! The innermost lock except for those of the caches and the allocator's groups: no lock of the
//! volume is taken under a handle.
//!
//! # Cost
//! The first change of a block copies it, so that the change can be undone; the copy reuses an
//! array of an earlier handle. If the block is dirty, the first change of a part copies only that
//! part; a change of another part copies the whole block.

use super::running::{Running, Tid};
use super::touched::{Before, Touched};
use crate::alloc::AllocationChanges;
use crate::error::Place;
use crate::sync::MutexGuard;
use crate::xattr::SharingChanges;
use crate::{Error, Filesystem, FsBlock, Ino, Result};
use std::ops::Range;
use std::sync::Arc;

/// An open handle.
#[derive(Debug)]
#[must_use = "dropping a handle undoes its changes"]
pub struct Handle<'f> {
    fs: &'f Filesystem,
    running: MutexGuard<'f, Running>,
    touched: Touched,
    forgotten: Vec<FsBlock>,
    /// The maximum number of blocks that it could change at the start, and can still change.
    granted: u32,
    credits: u32,
    /// The blocks and inodes that it allocated and freed.
    pub(crate) allocation: AllocationChanges,
    /// The changes of attribute sharing, which take effect when it stops.
    pub(crate) sharing: SharingChanges,
    /// Whether it added or removed an orphan.
    pub(crate) has_changed_orphans: bool,
    stopped: bool,
}

impl<'f> Handle<'f> {
    pub(super) fn new(
        fs: &'f Filesystem,
        mut running: MutexGuard<'f, Running>,
        credits: u32,
    ) -> Self {
        Self {
            fs,
            touched: std::mem::take(&mut running.pool.touched),
            running,
            forgotten: Vec::new(),
            granted: credits,
            credits,
            allocation: AllocationChanges::default(),
            sharing: SharingChanges::default(),
            has_changed_orphans: false,
            stopped: false,
        }
    }

    /// Returns the transaction of this handle.
    #[must_use]
    pub fn tid(&self) -> Tid {
        self.running.tid()
    }

    /// Returns how many more blocks the handle may change. A long operation stops its handle in
    /// time and continues in another one.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.credits
    }

    /// Changes the metadata block `block`, which belongs to `ino`. A block that is not cached is
    /// read first, without verification: the caller has already verified it.
    ///
    /// # Errors
    /// The device's error, [`Error::Corrupt`] if `block` cannot hold metadata, or the error of
    /// `edit`. After an error, what `edit` did so far remains visible until the handle is dropped.
    pub fn update<R>(
        &mut self,
        block: FsBlock,
        ino: Ino,
        edit: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        if !self.touched.covers_all(block) {
            let contents = self.fs.metadata_block_unchecked(block, ino)?;
            // A copy: the old contents stay unchanged, for the undo and for commits.
            let copy = self.running.pool.copy(&contents);
            drop(contents);
            self.add_block(block, ino, copy)?;
        }
        self.edit(block, ino, edit)
    }

    /// Changes only the bytes `part` of the block, and otherwise behaves like [`Handle::update`].
    ///
    /// # Errors
    /// As [`Handle::update`], and [`Error::Corrupt`] if the block does not have those bytes.
    pub fn update_part<R>(
        &mut self,
        block: FsBlock,
        ino: Ino,
        part: Range<usize>,
        edit: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        let is_kept = self.touched.covers(block, &part) || self.keep_part(block, &part)?;
        let edit_part = |bytes: &mut [u8]| {
            let cut_off = || Place::Block(block, ino).corrupt("block is truncated");
            edit(bytes.get_mut(part).ok_or_else(cut_off)?)
        };
        if is_kept {
            self.edit(block, ino, edit_part)
        } else {
            self.update(block, ino, edit_part)
        }
    }

    /// Saves the bytes `part` of `block` for the undo. Returns false, and does nothing, if the
    /// block is not dirty, or if the handle changed another part of it. The whole block must then
    /// be saved, so that the size of the saved contents is bounded by the handle's credits.
    fn keep_part(&mut self, block: FsBlock, part: &Range<usize>) -> Result<bool> {
        if self.touched.contains(block) {
            return Ok(false);
        }
        if self.credits == 0 {
            return Err(Error::HandleTooLarge);
        }
        let touched = &mut self.touched;
        let kept = self.fs.buffers().edit_dirty(block.0, |bytes| {
            let before = bytes.get(part.clone())?;
            touched.keep_part(block, part.start, before);
            Some(())
        });
        let is_kept = kept.flatten().is_some();
        self.credits -= u32::from(is_kept);
        Ok(is_kept)
    }

    fn edit<R>(
        &mut self,
        block: FsBlock,
        ino: Ino,
        edit: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        let edited = self.fs.buffers().edit_dirty(block.0, edit);
        edited.unwrap_or_else(|| {
            Err(Place::Block(block, ino).corrupt("block was freed by the same handle"))
        })
    }

    /// Makes `block` a metadata block that is all zeros before `fill`. Its old contents are not
    /// read.
    ///
    /// # Errors
    /// As [`Handle::replace`], or the error of `fill`.
    pub fn create<R>(
        &mut self,
        block: FsBlock,
        ino: Ino,
        fill: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        let zeros: Arc<[u8]> = vec![0; self.fs.buffers().block_size_bytes()].into();
        self.replace(block, ino, zeros)?;
        self.edit(block, ino, fill)
    }

    /// Replaces the contents of the metadata block `block`, which belongs to `ino`. Its old
    /// contents are not read.
    ///
    /// # Errors
    /// [`Error::HandleTooLarge`] if there are no credits left, or [`Error::Corrupt`] if `block`
    /// cannot hold metadata.
    pub fn replace(&mut self, block: FsBlock, ino: Ino, contents: Arc<[u8]>) -> Result<()> {
        if self.touched.covers_all(block) {
            self.fs.buffers().set_dirty(block.0, contents);
            return Ok(());
        }
        self.add_block(block, ino, contents)
    }

    /// Adds `block` to the handle, with these contents.
    fn add_block(&mut self, block: FsBlock, ino: Ino, contents: Arc<[u8]>) -> Result<()> {
        // A damaged image may contain a reference to any block.
        self.fs.check_place(block, ino)?;
        if !self.touched.contains(block) {
            self.credits = self.credits.checked_sub(1).ok_or(Error::HandleTooLarge)?;
        }
        let before = self.fs.buffers().set_dirty(block.0, contents);
        self.touched.keep_whole(block, before);
        Ok(())
    }

    /// Records that `block` is part of an inode table.
    pub(crate) fn note_inodes(&mut self, block: FsBlock) {
        if let Some(order) = &mut self.running.order {
            order.add_inodes(block);
        }
    }

    /// Returns the last of the inode `numbers` that this transaction freed. `None` if there is a
    /// journal: only without one can names of a freed inode remain after a power cut.
    pub(crate) fn last_freed(&self, numbers: Range<Ino>) -> Option<Ino> {
        self.running.order.as_ref()?.last_freed(numbers)
    }

    /// Returns whether the transaction freed any such number.
    pub(crate) fn has_freed_inodes(&self) -> bool {
        self.last_freed(Ino(0)..Ino(u32::MAX)).is_some()
    }

    /// Frees the metadata block `block`: its contents are never written home, and no replay
    /// restores them.
    pub fn forget(&mut self, block: FsBlock) {
        self.forgotten.push(block);
    }

    /// Ends the handle. Its changes are part of the returned transaction.
    #[allow(
        clippy::must_use_candidate,
        reason = "callers that do not wait for the commit do not need the transaction number"
    )]
    pub fn stop(mut self) -> Tid {
        self.stopped = true;
        let tid = self.running.tid();
        let running = &mut *self.running;
        let blocks_before = running.len_blocks();
        self.touched.drain(|block, before, _| {
            running.add(block);
            if let Before::Whole(before) = before {
                running.pool.put(before);
            }
        });
        let (blocks, spent) = (running.len_blocks(), self.granted - self.credits);
        if blocks > running.limit_blocks || blocks > blocks_before.saturating_add(spent) {
            // No commit reports success any more: this transaction would not fit into the log.
            self.fs
                .broken("a handle changed more blocks than its credits allow");
        }
        for block in &self.forgotten {
            self.running.forget(*block);
            self.fs.buffers().forget_dirty(block.0);
        }
        if let Some(order) = &mut self.running.order {
            let allocator = self.fs.allocator();
            allocator
                .taken_blocks(&self.allocation)
                .for_each(|blocks| order.take(blocks));
            order.free(self.allocation.freed_inodes());
        }
        self.fs.allocator().keep(&mut self.allocation, tid);
        self.fs.sharing.keep(&mut self.sharing);
        tid
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if !self.stopped {
            let (buffers, running) = (self.fs.buffers(), &mut *self.running);
            self.touched.drain(|block, before, saved| {
                match before {
                    Before::Clean => {
                        buffers.forget_dirty(block.0);
                        return;
                    }
                    Before::Whole(before) => drop(buffers.set_dirty(block.0, before)),
                    Before::Part { start, .. } => {
                        let restore = |bytes: &mut [u8]| {
                            bytes[start..start + saved.len()].copy_from_slice(saved);
                        };
                        buffers.edit_dirty(block.0, restore);
                    }
                }
                // A checkpoint may have skipped the block meanwhile, because it had changed.
                running.add(block);
            });
            self.fs.allocator().undo(&mut self.allocation);
            if self.has_changed_orphans {
                self.fs.orphans.invalidate();
            }
        }
        self.running.pool.touched = std::mem::take(&mut self.touched);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_image::{assert_stopped, open};
    use crate::{FsBlock, Ino};

    #[test]
    fn handle_that_exceeds_its_credits_stops_writing() {
        let fs = open();
        let mut handle = fs.start(2).unwrap();
        for block in [9000, 9001] {
            handle
                .create(FsBlock(block), Ino::ROOT, |_| Ok(()))
                .unwrap();
        }
        handle.granted -= 1;
        handle.stop();
        assert_stopped(&fs, "a handle changed more blocks than its credits allow");
    }
}
