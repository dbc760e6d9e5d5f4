//! Dirty buffers: metadata blocks whose contents differ from the device's.
//!
//! # Model
//! `BH_Dirty` and jbd2's copies of a buffer, by other means. A frame's bytes never
//! change while anyone may look at them ([`crate::page`]), so what a block becomes
//! lies beside the frames, one immutable array for each version: whoever holds a
//! version (a reader, a transaction being committed) keeps it while the next one is
//! made. So a commit needs no frozen copy, and a reader no lock.
//!
//! # Invariants
//! 1. While a block is in here, nobody is given its frame: readers look here first.
//! 2. A block leaves only when the device holds what it held here, and no frame
//!    holds anything older.
//!
//! # Locking
//! One lock for each of [`SHARDS`] parts of the block numbers, held for one look or
//! one edit. Who edits is alone (one journal handle at a time), so that between a look
//! and an edit nothing changes.
//!
//! # Cost
//! A block's size and some 60 bytes a dirty block, outside the memory budget:
//! the journal bounds their number. Without dirty blocks, a look is one load.

use crate::number_hash::NumberHash;
use crate::sync::{AcqRel, Acquire, AtomicU64, Mutex};
use std::collections::HashMap;
use std::sync::Arc;

/// Parts of the block numbers.
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
        // Neighbours are often wanted together, by one thread: one lock for 16 of them.
        let index = (block >> 4) % SHARDS;
        &self.shards[usize::try_from(index).unwrap_or(0)]
    }

    /// Number of dirty blocks.
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

    /// Makes `contents` the block's; returns what it was here before.
    pub(super) fn set(&self, block: u64, contents: Arc<[u8]>) -> Option<Arc<[u8]>> {
        let before = self.shard(block).lock().insert(block, contents);
        if before.is_none() {
            self.blocks.fetch_add(1, AcqRel);
        }
        before
    }

    /// Edits the block in place, or a copy of it if its present version is held by
    /// anyone. `None` if it is not dirty.
    pub(super) fn edit<R>(&self, block: u64, edit: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let mut shard = self.shard(block).lock();
        let contents = shard.get_mut(&block)?;
        Some(edit(Arc::make_mut(contents)))
    }

    /// Takes the block out if `may_leave` agrees to its contents.
    pub(super) fn remove(&self, block: u64, may_leave: impl FnOnce(&Arc<[u8]>) -> bool) -> bool {
        let mut shard = self.shard(block).lock();
        if !shard.get(&block).is_some_and(may_leave) {
            return false;
        }
        shard.remove(&block);
        self.blocks.fetch_sub(1, AcqRel);
        true
    }
}
