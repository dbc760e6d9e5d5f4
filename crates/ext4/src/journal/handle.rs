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

use super::running::{Running, Tid};
use crate::alloc::AllocationChanges;
use crate::error::Place;
use crate::{Error, Filesystem, FsBlock, Ino, Result};
use parking_lot::MutexGuard;
use std::collections::HashMap;
use std::sync::Arc;

/// An open handle.
#[derive(Debug)]
#[must_use = "a handle that is dropped takes back what it did"]
pub struct Handle<'f> {
    fs: &'f Filesystem,
    running: MutexGuard<'f, Running>,
    /// The blocks that this handle changed, and what they were before if they were
    /// dirty then.
    before: HashMap<FsBlock, Option<Arc<[u8]>>>,
    forgotten: Vec<FsBlock>,
    /// Blocks that it may still change.
    credits: u32,
    /// What it allocated and freed.
    pub(crate) allocation: AllocationChanges,
    stopped: bool,
}

impl<'f> Handle<'f> {
    pub(super) fn new(fs: &'f Filesystem, running: MutexGuard<'f, Running>, credits: u32) -> Self {
        Self {
            fs,
            running,
            before: HashMap::new(),
            forgotten: Vec::new(),
            credits,
            allocation: AllocationChanges::default(),
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
    /// The device's error, or `edit`'s; what `edit` did until then is there to see until the
    /// handle is dropped.
    pub fn update<R>(
        &mut self,
        block: FsBlock,
        ino: Ino,
        edit: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        if !self.before.contains_key(&block) {
            let contents = self.fs.metadata_block_unchecked(block, ino)?.to_shared();
            // A copy: what was stays as it is, for the undo and for commits.
            self.take_over(block, Arc::from(&*contents))?;
        }
        let edited = self.fs.buffers().edit_dirty(block.0, edit);
        edited.unwrap_or_else(|| {
            let place = Place::Block(block, ino);
            Err(Error::corrupt(place, "block was freed in the same change"))
        })
    }

    /// Makes `block` a metadata block, all zeros before `fill`. What it held is not read.
    ///
    /// # Errors
    /// `fill`'s, or for want of credits.
    pub fn create<R>(
        &mut self,
        block: FsBlock,
        ino: Ino,
        fill: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        let zeros: Arc<[u8]> = vec![0; self.fs.buffers().block_size_bytes()].into();
        if self.before.contains_key(&block) {
            self.fs.buffers().set_dirty(block.0, zeros);
        } else {
            self.take_over(block, zeros)?;
        }
        self.update(block, ino, fill)
    }

    /// Enters `block` into the handle with these contents.
    fn take_over(&mut self, block: FsBlock, contents: Arc<[u8]>) -> Result<()> {
        self.credits = self.credits.checked_sub(1).ok_or(Error::HandleTooLarge)?;
        let before = self.fs.buffers().set_dirty(block.0, contents);
        self.before.insert(block, before);
        Ok(())
    }

    /// The metadata block `block` is freed: what it holds is never written home, and no
    /// replay brings it back.
    pub fn forget(&mut self, block: FsBlock) {
        self.forgotten.push(block);
    }

    /// Ends the handle; its changes are part of the transaction that it returns.
    pub fn stop(mut self) -> Tid {
        self.stopped = true;
        let tid = self.running.tid();
        for block in self.before.keys() {
            self.running.add(*block);
        }
        for block in &self.forgotten {
            self.running.forget(*block);
            self.fs.buffers().forget_dirty(block.0);
        }
        self.fs.allocator().keep(&mut self.allocation, tid);
        tid
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        for (block, before) in self.before.drain() {
            match before {
                Some(contents) => drop(self.fs.buffers().set_dirty(block.0, contents)),
                None => drop(self.fs.buffers().forget_dirty(block.0)),
            }
        }
        self.fs.allocator().undo(&mut self.allocation);
    }
}
