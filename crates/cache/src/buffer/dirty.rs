//! Dirty buffers: metadata blocks whose contents the device does not have yet.
//!
//! # Model
//! `BH_Dirty` and jbd2's copies of a buffer, implemented differently. The bytes of a frame must not
//! change while a thread reads them ([`crate::page`]). So the new contents of a block are stored outside
//! the frames, in a separate array for each version. A reader, or a transaction that is being committed,
//! keeps its version while a handle creates the next version. So a commit needs no frozen copy, and a
//! reader needs no lock while it reads.
//!
//! # Invariants
//! 1. While a block is dirty, no reader gets its frame, since readers search the dirty buffers first.
//! 2. A dirty block is removed from this set only when the device has its contents and no frame has
//!    older contents, or when its contents are obsolete.
//!
//! # Locking
//! The block numbers are divided into [`SHARDS`] parts, each with a lock, which a thread holds for one
//! lookup or one edit. Only the thread with the open journal handle edits blocks, and only one handle is open
//! at a time. Therefore a block cannot change between that thread's lookup of the block and its edit.
//!
//! # Cost
//! A dirty block takes its size and about 60 bytes, which are not part of the memory budget. The journal
//! limits the number of dirty blocks. If no block is dirty, a lookup is one load.

use crate::number_hash::NumberHash;
use crate::sync::{AcqRel, Acquire, AtomicU64, Mutex};
use std::collections::HashMap;
use std::sync::Arc;

/// The number of parts into which the block numbers are divided.
const SHARDS: u64 = 64;

type Shard = Mutex<HashMap<u64, Arc<[u8]>, NumberHash>>;

#[derive(Debug)]
pub(super) struct DirtyBuffers {
    blocks: AtomicU64,
    shards: Box<[Shard]>,
}

impl DirtyBuffers {
    pub(super) fn new() -> Self {
        Self {
            blocks: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(&self, block: u64) -> &Shard {
        // Neighbouring blocks are often used together by one thread, so 16 of them share one lock.
        let index = (block >> 4) % SHARDS;
        &self.shards[usize::try_from(index).unwrap_or(0)]
    }

    /// Returns the number of dirty blocks.
    pub(super) fn len(&self) -> u64 {
        self.blocks.load(Acquire)
    }

    #[inline]
    pub(super) fn get(&self, block: u64) -> Option<Arc<[u8]>> {
        if self.len() == 0 {
            return None;
        }
        self.shard(block).lock().get(&block).cloned()
    }

    /// Sets the contents of a block, and returns its previous dirty contents.
    pub(super) fn set(&self, block: u64, contents: Arc<[u8]>) -> Option<Arc<[u8]>> {
        let before = self.shard(block).lock().insert(block, contents);
        if before.is_none() {
            self.blocks.fetch_add(1, AcqRel);
        }
        before
    }

    /// Edits the contents of the block in place, or replaces them by an edited copy if another thread
    /// uses the present version. Returns `None` if the block is not dirty.
    pub(super) fn edit<R>(&self, block: u64, edit: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let mut shard = self.shard(block).lock();
        let contents = shard.get_mut(&block)?;
        Some(edit(Arc::make_mut(contents)))
    }

    /// Removes the block if `is_unneeded` returns true for its contents. Returns true if it was removed.
    pub(super) fn remove(&self, block: u64, is_unneeded: impl FnOnce(&Arc<[u8]>) -> bool) -> bool {
        let mut shard = self.shard(block).lock();
        if !shard.get(&block).is_some_and(is_unneeded) {
            return false;
        }
        shard.remove(&block);
        self.blocks.fetch_sub(1, AcqRel);
        true
    }
}
