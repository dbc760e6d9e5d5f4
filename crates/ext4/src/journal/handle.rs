//! A handle: metadata changes that take effect as a whole or not at all.
//!
//! # Model
//! jbd2's `handle_t`. Every metadata change uses a handle, also on images without a journal. Unlike in jbd2,
//! only one handle is open at a time, so a handle never sees the unfinished changes of another handle. A
//! handle that is dropped before [`Handle::stop`] undoes all its changes. An operation that fails in the
//! middle (because space runs out, or a block is damaged) therefore leaves no changes.
//!
//! Other threads that need a handle wait for the open one, so a handle must stay open only for
//! microseconds. A thread must have no open handle while it writes data, or performs a commit or a
//! checkpoint.
//!
//! # No waiting
//! A handle of [`Filesystem::change`] never waits for a device, because all other threads that need
//! a handle would wait too. A block that is not in memory makes the handle give way: the handle is
//! undone, the block is read, and the operation is repeated ([`crate::needs`] describes how).
//! Therefore the caller's closure must not change anything except through the handle. The caller
//! updates its own state in memory, such as the state of the inode, after `change` has returned and
//! before it stops the handle. A handle of [`Filesystem::start`] may wait; it is for recovery and
//! tests.
//!
//! # Visibility
//! Other threads can read a changed block as soon as the change is made, before the handle stops.
//! The caller must therefore lock the inode, the mapping or the directory against readers before it
//! opens the handle.
//!
//! # Locking
//! An open handle holds the lock of the running transaction. A caller must take the locks of the
//! volume before it opens the handle. While the handle is open, its thread may take only internal
//! locks of this crate and of the caches.
//!
//! # Cost
//! Before a handle first changes a block, it copies the block, so that the change can be undone.
//! The copy reuses memory of an earlier handle. If the block is dirty, and [`Handle::update_part`]
//! changes it, only the changed part is copied; a later change to another part of the block copies
//! the whole block.

use super::running::{Running, Tid};
use super::undo::{Before, UndoRecords};
use crate::alloc::AllocationChanges;
use crate::attempt::{self, Attempt};
use crate::error::Place;
use crate::inode::OrphanChanges;
use crate::sync::MutexGuard;
use crate::xattr::SharingChanges;
use crate::{Error, Filesystem, FsBlock, Ino, MemoryOnly, Result};
use std::ops::Range;
use std::sync::Arc;

/// An open handle.
#[derive(Debug)]
#[must_use = "dropping a handle undoes its changes"]
pub struct Handle<'f> {
    fs: &'f Filesystem,
    running: MutexGuard<'f, Running>,
    undo: UndoRecords,
    /// The blocks that were passed to [`Handle::forget`].
    forgotten: Vec<FsBlock>,
    /// The number of blocks that the handle may change in total.
    granted: u32,
    /// The number of blocks that the handle may still change.
    credits: u32,
    /// The blocks and inodes that the handle allocated and freed.
    pub(crate) allocation: AllocationChanges,
    /// The changes to the caches that find attributes to share. New entries are added when the
    /// handle stops.
    pub(crate) sharing: SharingChanges,
    /// The orphans that the handle added and removed.
    pub(crate) orphans: OrphanChanges,
    stopped: bool,
    /// The attempt that the handle belongs to, in which reads find only what is in memory. `None`
    /// for a handle of [`Filesystem::start`], whose reads may wait.
    pub(super) attempt: Option<Attempt>,
}

impl<'f> Handle<'f> {
    pub(super) fn new(
        fs: &'f Filesystem,
        mut running: MutexGuard<'f, Running>,
        credits: u32,
    ) -> Self {
        Self {
            fs,
            undo: std::mem::take(&mut running.pool.undo),
            running,
            forgotten: Vec::new(),
            granted: credits,
            credits,
            allocation: AllocationChanges::default(),
            sharing: SharingChanges::default(),
            orphans: OrphanChanges::default(),
            stopped: false,
            attempt: None,
        }
    }

    /// Returns the number of the transaction that the handle belongs to.
    #[must_use]
    pub fn tid(&self) -> Tid {
        self.running.tid()
    }

    /// Returns the number of blocks that the handle may still change. A long operation must stop
    /// the handle before this number is too small, and continue with a new handle.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.credits
    }

    /// Changes the metadata block `block`, which belongs to `ino`, with `edit`. The block is not
    /// verified: the caller must already have verified it.
    ///
    /// # Errors
    /// [`Error::HandleTooLarge`] if the handle has not changed the block yet and has no credits left;
    /// [`Error::NotInMemory`] if the block is not in memory and the handle must not wait;
    /// [`Error::Unreadable`] if the device failed; [`Error::Corrupt`] if `block` cannot hold metadata;
    /// or the error of `edit`. If `edit` returns an error, the changes that it has already made remain
    /// visible until the handle is dropped.
    pub fn update<R>(
        &mut self,
        block: FsBlock,
        ino: Ino,
        edit: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        if !self.undo.covers_all(block) {
            let contents = self.fs.metadata_block_unchecked(block, ino)?;
            // The handle changes a copy, because the undo and a commit in progress need the old
            // contents.
            let copy = self.running.pool.copy(&contents);
            drop(contents);
            self.add_block(block, ino, copy)?;
        }
        self.edit(block, ino, edit)
    }

    /// Changes the bytes `part` of the metadata block `block` with `edit`, which is passed only
    /// these bytes. Otherwise equivalent to [`Handle::update`].
    ///
    /// # Errors
    /// As [`Handle::update`], and [`Error::Corrupt`] if the block is too short to contain `part`.
    pub fn update_part<R>(
        &mut self,
        block: FsBlock,
        ino: Ino,
        part: Range<usize>,
        edit: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        let is_kept = self.undo.covers(block, &part) || self.keep_part(block, &part)?;
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

    /// Saves the bytes `part` of `block`, so that a change to them can be undone. Returns false,
    /// and saves nothing, if the block is not dirty, does not contain `part`, or was already
    /// changed by the handle. The caller must then save the whole block. At most one part of each
    /// block is therefore saved, and the credits bound the size of all saved contents.
    ///
    /// # Errors
    /// [`Error::HandleTooLarge`] if the handle has not changed the block yet and has no credits left.
    fn keep_part(&mut self, block: FsBlock, part: &Range<usize>) -> Result<bool> {
        if self.undo.contains(block) {
            return Ok(false);
        }
        if self.credits == 0 {
            return Err(Error::HandleTooLarge);
        }
        let undo = &mut self.undo;
        let kept = self.fs.buffers().edit_dirty(block.0, |bytes| {
            let before = bytes.get(part.clone())?;
            undo.keep_part(block, part.start, before);
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

    /// Replaces the contents of the metadata block `block`, which belongs to `ino`, with zeros, and
    /// then changes them with `fill`. The old contents are not read.
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

    /// Replaces the contents of the metadata block `block`, which belongs to `ino`. The old
    /// contents are not read.
    ///
    /// # Errors
    /// [`Error::HandleTooLarge`] if the handle has not changed the block yet and has no credits left,
    /// or [`Error::Corrupt`] if `block` cannot hold metadata.
    pub fn replace(&mut self, block: FsBlock, ino: Ino, contents: Arc<[u8]>) -> Result<()> {
        if self.undo.covers_all(block) {
            self.fs.buffers().set_dirty(block.0, contents);
            return Ok(());
        }
        self.add_block(block, ino, contents)
    }

    /// Sets the contents of `block`, and saves the old contents, so that the change can be undone.
    fn add_block(&mut self, block: FsBlock, ino: Ino, contents: Arc<[u8]>) -> Result<()> {
        // A damaged image may refer to a block that must not be overwritten.
        self.fs.check_place(block, ino)?;
        if !self.undo.contains(block) {
            self.credits = self.credits.checked_sub(1).ok_or(Error::HandleTooLarge)?;
        }
        let before = self.fs.buffers().set_dirty(block.0, contents);
        self.undo.keep_whole(block, before);
        Ok(())
    }

    /// Records that `block` is part of an inode table. Has no effect if there is a journal.
    pub(crate) fn note_inodes(&mut self, block: FsBlock) {
        if let Some(order) = &mut self.running.order {
            order.add_inodes(block);
        }
    }

    /// Returns the highest inode number in `numbers` that this transaction freed. Always returns `None` if
    /// there is a journal. Without a journal, a name of a freed inode can reappear after a power cut, so the
    /// reuse of the inode's number must be delayed.
    pub(crate) fn last_freed(&self, numbers: Range<Ino>) -> Option<Ino> {
        self.running.order.as_ref()?.last_freed(numbers)
    }

    /// Returns whether the transaction freed an inode number. Always false if there is a journal.
    pub(crate) fn has_freed_inodes(&self) -> bool {
        self.last_freed(Ino(0)..Ino(u32::MAX)).is_some()
    }

    /// Drops the contents of the metadata block `block` when the handle stops: they are not written
    /// to the block, and no replay of the journal restores them. The caller must also free the
    /// block.
    pub fn forget(&mut self, block: FsBlock) {
        self.forgotten.push(block);
    }

    /// Ends the handle, and returns the number of the transaction that its changes are now part of.
    #[allow(
        clippy::must_use_candidate,
        reason = "callers that do not wait for the commit do not need the transaction number"
    )]
    pub fn stop(mut self) -> Tid {
        if self.attempt.is_some() && attempt::has_missed() {
            // After `Filesystem::change` returned, the handle needed to wait and could not, so its
            // changes can be incomplete. `broken` makes all later commits fail.
            self.fs
                .broken("a handle needed to wait for the device after its changes");
        }
        self.stopped = true;
        let tid = self.running.tid();
        let running = &mut *self.running;
        let blocks_before = running.len_blocks();
        self.undo.drain(|block, before, _| {
            running.add(block);
            if let Before::Whole(before) = before {
                running.pool.put(before);
            }
        });
        let (blocks, spent) = (running.len_blocks(), self.granted - self.credits);
        if blocks > running.limit_blocks || blocks > blocks_before.saturating_add(spent) {
            // The transaction is possibly too large for the log. `broken` makes all later commits fail.
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
        drop(self.attempt.take());
        if MemoryOnly::begin_change().is_err() {
            self.fs.broken(
                "a handle was stopped after its operation had needed to wait and could not",
            );
        }
        tid
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if !self.stopped {
            let (buffers, running) = (self.fs.buffers(), &mut *self.running);
            self.undo.drain(|block, before, saved| {
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
                // The block is dirty with its old contents again. If a checkpoint wrote these
                // contents while the handle was open, it did not mark the block as clean, because
                // the handle had changed the block. The block is added to the running transaction,
                // so that a later checkpoint marks it as clean.
                running.add(block);
            });
            self.fs.allocator().undo(&mut self.allocation);
            self.fs.orphans.undo(&mut self.orphans);
            self.fs.sharing.undo(&mut self.sharing);
        }
        self.running.pool.undo = std::mem::take(&mut self.undo);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_image::{assert_stopped, open};
    use crate::{Error, FsBlock, Goal, Ino, MemoryOnly, Result};

    /// Blocks of the last group that are not in use, in different frames.
    const FREE: FsBlock = FsBlock(9000);
    const COLD: FsBlock = FsBlock(9100);

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

    #[test]
    fn handle_that_needs_a_cold_block_is_undone_and_repeated() {
        let fs = open();
        let mut calls = 0;
        let changed = fs.change(2, |handle| -> Result<()> {
            calls += 1;
            assert_eq!(fs.buffers().dirty(FREE.0), None);
            handle.create(FREE, Ino::ROOT, |_| Ok(()))?;
            handle.update(COLD, Ino::ROOT, |bytes| {
                bytes.fill(7);
                Ok(())
            })
        });
        let (handle, ()) = changed.unwrap();
        assert!(fs.buffers().dirty(COLD.0).is_some());
        fs.commit(handle.stop()).unwrap();
        assert_eq!(calls, 2);
        fs.close().unwrap();
    }

    #[test]
    fn memory_only_part_has_no_handle_after_a_miss_and_ends_when_a_handle_stops() {
        let fs = open();
        let change = || {
            fs.change(1, |handle| {
                handle.update(COLD, Ino::ROOT, |bytes| {
                    bytes.fill(7);
                    Ok(())
                })
            })
        };
        let part = MemoryOnly::begin();
        assert!(matches!(change(), Err(Error::WouldWait)));
        assert!(MemoryOnly::has_missed());
        assert!(matches!(fs.start(0), Err(Error::WouldWait)));
        assert!(MemoryOnly::begin_change().is_err());
        drop(part);
        assert_eq!(fs.buffers().dirty(COLD.0), None);

        // This undoes the change, and the block stays in memory.
        drop(change().unwrap());
        let part = MemoryOnly::begin();
        let (handle, ()) = change().unwrap();
        assert!(MemoryOnly::is_active());
        let tid = handle.stop();
        assert!(!MemoryOnly::is_active());
        // The thread may wait for the device again.
        fs.commit(tid).unwrap();
        drop(part);
        fs.close().unwrap();
    }

    #[test]
    fn operation_that_tolerates_a_miss_still_gives_way() {
        let fs = open();
        let mut calls = 0;
        let read = fs.change(0, |_| -> Result<bool> {
            calls += 1;
            Ok(fs.metadata_block_unchecked(COLD, Ino::ROOT).is_ok())
        });
        assert!(read.unwrap().1);
        assert_eq!(calls, 2);
    }

    #[test]
    fn cold_block_that_cannot_be_read_is_an_error_of_the_second_attempt() {
        let fs = open();
        let past_end = FsBlock(1 << 40);
        let mut calls = 0;
        let read = fs.change(0, |_| -> Result<()> {
            calls += 1;
            for _ in 0..2 {
                let error = fs
                    .metadata_block_unchecked(past_end, Ino::ROOT)
                    .unwrap_err();
                let is_miss = matches!(error, Error::NotInMemory(block) if block == past_end);
                let is_final = matches!(error, Error::Unreadable { .. });
                assert!(if calls == 1 { is_miss } else { is_final }, "{error}");
            }
            Ok(())
        });
        drop(read.unwrap());
        assert_eq!(calls, 2);
    }

    #[test]
    fn claim_outlives_the_handle_that_took_it_and_gave_way() {
        let fs = open();
        let free = || fs.free_counts().unwrap().0;
        let before = free();
        let claim = fs.claim(Goal::default(), 4, None).unwrap();
        let (mut calls, blocks) = (0, claim.blocks());
        let taken = fs.change(10, |handle| -> Result<()> {
            calls += 1;
            fs.take(handle, claim.clone())?;
            assert_eq!(free(), before - u64::from(blocks));
            // Meanwhile, no other claim can contain these blocks.
            let other = fs.claim(Goal::default(), 4, None)?;
            assert!(other.start().0 >= claim.start().0 + u64::from(blocks));
            drop(fs.metadata_block_unchecked(COLD, Ino::ROOT)?);
            Ok(())
        });
        taken.unwrap().0.stop();
        drop(claim);
        assert!(calls >= 2);
        assert_eq!(free(), before - u64::from(blocks));
        fs.close().unwrap();
    }

    #[test]
    fn failed_handle_frees_the_blocks_of_a_claim_without_clones() {
        let fs = open();
        let before = fs.free_counts().unwrap().0;
        let start = fs.claim(Goal::default(), 4, None).unwrap().start();
        let failed = fs.change(10, |handle| -> Result<()> {
            let claim = fs.claim(Goal::default(), 4, None)?;
            assert_eq!(claim.start(), start);
            fs.take(handle, claim)?;
            Err(Error::NoSpace)
        });
        assert!(matches!(failed, Err(Error::NoSpace)));
        assert_eq!(fs.free_counts().unwrap().0, before);
        assert_eq!(fs.claim(Goal::default(), 4, None).unwrap().start(), start);
    }
}
