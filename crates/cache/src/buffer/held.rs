//! Held buffers: copies of blocks that a thread needs in memory for its next journal handle.
//!
//! # Model
//! Linux pins the buffers that a handle needs. Here, a block is copied instead, so that a cache of
//! a few frames is enough for any operation, and held blocks do not displace other blocks from the
//! cache. The copies are outside the memory budget; each exists only until its operation is done.
//!
//! # Invariants
//! 1. The contents of a held block are those that it has on the device, or had before it became
//!    dirty. Readers search the dirty blocks first.
//! 2. When a held block is cleaned, its contents here become those that were written to the device.
//!
//! # Locking
//! There is one lock, which a thread holds for one access. A thread may take it while it holds the
//! lock of a shard of the dirty blocks.
//!
//! # Cost
//! Usually no block is held. Then a lookup costs one load, and so does a call of `set_cleaned`.

use crate::sync::{AcqRel, Acquire, AtomicU64, Mutex};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct HeldBuffers {
    /// The number of holds of all blocks.
    holds: AtomicU64,
    blocks: Mutex<HashMap<u64, Held>>,
}

#[derive(Debug, Default)]
struct Held {
    holds: u64,
    /// `None` until the block is read or cleaned.
    contents: Option<Arc<[u8]>>,
}

impl HeldBuffers {
    pub(super) fn new() -> Self {
        Self {
            holds: AtomicU64::new(0),
            blocks: Mutex::new(HashMap::new()),
        }
    }

    fn is_empty(&self) -> bool {
        self.holds.load(Acquire) == 0
    }

    /// Adds a hold of `block`. From now on, the contents of the block are kept when it is cleaned.
    pub(super) fn add(&self, block: u64) {
        let mut blocks = self.blocks.lock();
        self.holds.fetch_add(1, AcqRel);
        blocks.entry(block).or_default().holds += 1;
    }

    /// Removes a hold of `block`.
    pub(super) fn remove(&self, block: u64) {
        let mut blocks = self.blocks.lock();
        if let Entry::Occupied(mut entry) = blocks.entry(block) {
            self.holds.fetch_sub(1, AcqRel);
            entry.get_mut().holds -= 1;
            if entry.get().holds == 0 {
                entry.remove();
            }
        }
    }

    pub(super) fn get(&self, block: u64) -> Option<Arc<[u8]>> {
        if self.is_empty() {
            return None;
        }
        self.blocks.lock().get(&block)?.contents.clone()
    }

    /// Sets the contents of `block` if it is held and its contents are not set yet. `contents` must
    /// return contents that were read from the device after the hold began. If newer contents were
    /// written since then, they are already set.
    pub(super) fn set_read(&self, block: u64, contents: impl FnOnce() -> Arc<[u8]>) {
        if let Some(held) = self.blocks.lock().get_mut(&block) {
            held.contents.get_or_insert_with(contents);
        }
    }

    /// Sets the contents of `block`, if it is held, to those that were written to the device.
    pub(super) fn set_cleaned(&self, block: u64, contents: &Arc<[u8]>) {
        if self.is_empty() {
            return;
        }
        if let Some(held) = self.blocks.lock().get_mut(&block) {
            held.contents = Some(Arc::clone(contents));
        }
    }
}
