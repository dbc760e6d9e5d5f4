//! A handle: changes of metadata that become one, or none.
//!
//! # Model
//! jbd2's `handle_t`. Every change of metadata goes through one, also on images with
//! no journal. Different from jbd2: one handle is open at a time, and it can be
//! undone. A handle lasts microseconds of memory accesses; what takes long (data, the
//! log, checkpoints) happens outside. In return no operation sees another's half, and one
//! that fails in the middle, for want of space or because a block is damaged, leaves
//! nothing behind: dropped before [`Handle::stop`], a handle takes back all that it did.
//!
//! # What readers see
//! The changes of a handle are visible as they are made. Readers of an inode, its mapping
//! or its directory are kept out by locks of the caller's, which are taken before the handle.
//!
//! # Locking
//! The innermost lock but for those of the caches and the allocator's groups: no lock of
//! the volume's is taken under a handle.
//!
//! # Cost
//! The first change of a block copies it, so that it can be undone; the copy goes to an array
//! that an earlier handle left. The first change of a part copies that part alone, if the
//! block is dirty; a change of another part copies all of it.

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
#[must_use = "a handle that is dropped takes back what it did"]
pub struct Handle<'f> {
    fs: &'f Filesystem,
    running: MutexGuard<'f, Running>,
    touched: Touched,
    forgotten: Vec<FsBlock>,
    /// Blocks that it was to change at most, and that it may still change.
    granted: u32,
    credits: u32,
    /// What it allocated and freed.
    pub(crate) allocation: AllocationChanges,
    /// What is to be known of attributes once it stops.
    pub(crate) sharing: SharingChanges,
    /// Whether it entered or removed an orphan.
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

    /// The transaction that it belongs to.
    #[must_use]
    pub fn tid(&self) -> Tid {
        self.running.tid()
    }

    /// Blocks that it may still change: long work stops its handle in time and goes on in
    /// another one.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.credits
    }

    /// Changes the metadata block `block`, which belongs to `ino`. It is read first if it
    /// is not cached, unchecked: who edits has looked at it before.
    ///
    /// # Errors
    /// The device's error, [`Error::Corrupt`] if no metadata can be in `block`, or `edit`'s; what
    /// `edit` did until then is there to see until the handle is dropped.
    pub fn update<R>(
        &mut self,
        block: FsBlock,
        ino: Ino,
        edit: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        if !self.touched.covers_all(block) {
            let contents = self.fs.metadata_block_unchecked(block, ino)?;
            // A copy: what was stays as it is, for the undo and for commits.
            let copy = self.running.pool.copy(&contents);
            drop(contents);
            self.take_over(block, ino, copy)?;
        }
        self.edit(block, ino, edit)
    }

    /// As [`Handle::update`], of the bytes `part` of the block alone.
    ///
    /// # Errors
    /// As [`Handle::update`], [`Error::Corrupt`] if the block does not have those bytes.
    pub fn update_part<R>(
        &mut self,
        block: FsBlock,
        ino: Ino,
        part: Range<usize>,
        edit: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        let is_kept = self.touched.covers(block, &part) || self.keep_part(block, &part)?;
        let edit_part = |bytes: &mut [u8]| {
            let cut_off = || Place::Block(block, ino).corrupt("block is cut off");
            edit(bytes.get_mut(part).ok_or_else(cut_off)?)
        };
        if is_kept {
            self.edit(block, ino, edit_part)
        } else {
            self.update(block, ino, edit_part)
        }
    }

    /// Keeps what the bytes `part` of `block` are; false, with nothing done, if it is not dirty, or
    /// the handle changed it elsewhere: then it is to be kept as a whole, so that what a handle
    /// keeps is bounded by its credits.
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
            Err(Place::Block(block, ino).corrupt("block was freed in the same change"))
        })
    }

    /// Makes `block` a metadata block, all zeros before `fill`. What it held is not read.
    ///
    /// # Errors
    /// As [`Handle::replace`], or `fill`'s.
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

    /// Makes `contents` those of the metadata block `block`, which belongs to `ino`. What it held
    /// is not read.
    ///
    /// # Errors
    /// For want of credits, or [`Error::Corrupt`] if no metadata can be in `block`.
    pub fn replace(&mut self, block: FsBlock, ino: Ino, contents: Arc<[u8]>) -> Result<()> {
        if self.touched.covers_all(block) {
            self.fs.buffers().set_dirty(block.0, contents);
            return Ok(());
        }
        self.take_over(block, ino, contents)
    }

    /// Enters `block` into the handle with these contents.
    fn take_over(&mut self, block: FsBlock, ino: Ino, contents: Arc<[u8]>) -> Result<()> {
        // A damaged image may have led here.
        self.fs.check_place(block, ino)?;
        if !self.touched.contains(block) {
            self.credits = self.credits.checked_sub(1).ok_or(Error::HandleTooLarge)?;
        }
        let before = self.fs.buffers().set_dirty(block.0, contents);
        self.touched.keep_whole(block, before);
        Ok(())
    }

    /// `block` is one of an inode table.
    pub(crate) fn note_inodes(&mut self, block: FsBlock) {
        if let Some(order) = &mut self.running.order {
            order.add_inodes(block);
        }
    }

    /// The last of the inode `numbers` that this transaction freed, where a power cut may leave
    /// names of it behind: without a journal.
    pub(crate) fn last_freed(&self, numbers: Range<Ino>) -> Option<Ino> {
        self.running.order.as_ref()?.last_freed(numbers)
    }

    /// Whether there is any such number.
    pub(crate) fn waits_for_freed(&self) -> bool {
        self.last_freed(Ino(0)..Ino(u32::MAX)).is_some()
    }

    /// The metadata block `block` is freed: what it holds is never written home, and no
    /// replay brings it back.
    pub fn forget(&mut self, block: FsBlock) {
        self.forgotten.push(block);
    }

    /// Ends the handle; its changes are part of the transaction that it returns.
    #[allow(
        clippy::must_use_candidate,
        reason = "who does not wait for the commit needs no number"
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
            // Nobody is told of a commit any more: it would not fit into the log.
            self.fs
                .broken("a handle changed more blocks than it asked for");
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
                // Its checkpoint may have passed it by meanwhile, as changed since.
                running.add(block);
            });
            self.fs.allocator().undo(&mut self.allocation);
            if self.has_changed_orphans {
                self.fs.orphans.forget();
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
    fn handle_that_changes_more_than_it_asked_for_stops_writing() {
        let fs = open();
        let mut handle = fs.start(2).unwrap();
        for block in [9000, 9001] {
            handle
                .create(FsBlock(block), Ino::ROOT, |_| Ok(()))
                .unwrap();
        }
        handle.granted -= 1;
        handle.stop();
        assert_stopped(&fs, "a handle changed more blocks than it asked for");
    }
}
