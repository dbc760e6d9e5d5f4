//! Dirty buffers: metadata blocks whose contents differ from the device's.
//!
//! # Model
//! `BH_Dirty` and jbd2's copies of a buffer, implemented differently. A frame's bytes never change
//! while a reader may look at them ([`crate::page`]). So the new contents of a block are stored
//! beside the frames, in one immutable array for each version. A holder of a version (a reader, or
//! a transaction being committed) keeps it while the next one is made. So a commit needs no frozen
//! copy, and a reader no lock.
//!
//! # Invariants
//! 1. While a block is dirty, no reader gets its frame: readers search here first.
//! 2. A block leaves only when the device has the contents that it had here, and no frame has older
//!    contents.
//!
//! # Locking
//! One lock for each of [`SHARDS`] parts of the block numbers, held for one lookup or one edit.
//! Only one thread edits (one journal handle is open at a time), so nothing changes between a
//! lookup and an edit.
//!
//! # Cost
//! A block's size and about 60 bytes for each dirty block, outside the memory budget; the journal
//! limits their number. Without dirty blocks, a lookup is one load.

use crate::number_hash::NumberHash;
use crate::sync::{AcqRel, Acquire, AtomicU64, Mutex};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of parts of the block numbers.
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

    /// Edits the block in place, or a copy of it if its present version is held. Returns `None` if
    /// the block is not dirty.
    pub(super) fn edit<R>(&self, block: u64, edit: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let mut shard = self.shard(block).lock();
        let contents = shard.get_mut(&block)?;
        Some(edit(Arc::make_mut(contents)))
    }

    /// Removes the block if `may_leave` accepts its contents.
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
