//! References from inode numbers to slots, in place of the kernel's references from dentries to inodes.
//!
//! # Model
//! `d_inode`: a cached dentry of the kernel refers to its inode. So the kernel looks up an inode in the table
//! (`iget`) only after a miss in the dentry cache. Larder's callers have inode numbers, but no dentries.
//! Therefore the references are in an array, indexed by inode number. Inodes whose numbers differ by a
//! multiple of the array's length share an element.
//!
//! A reference does not prevent eviction, and may be stale: the caller must check that the slot has the
//! inode.
//!
//! # Cost
//! The array takes 2 to 4 bytes for each slot of the table. Its memory becomes resident as references are
//! set.

use crate::memory::{Array, Pages};
use crate::sync::{AtomicU32, Relaxed};
use crate::table::Counters;
use std::io;

/// Returns the length of the array for a table of `slots` slots.
fn length(slots: u32) -> u32 {
    1 << slots.max(1).ilog2()
}

/// Returns the size in bytes of the array for a table of `slots` slots.
pub(crate) fn references_bytes(slots: u32) -> u64 {
    u64::from(length(slots)) * size_of::<AtomicU32>() as u64
}

/// References to inodes, indexed by inode number.
#[derive(Debug)]
pub(super) struct References {
    /// Each element is the number of a slot plus 1, or 0 if there is no reference. The length is a power of two.
    slots: Array<AtomicU32>,
    counters: Counters,
}

impl References {
    /// Creates an array for a table of `slots` slots.
    ///
    /// # Errors
    /// Returns the kernel's error, most likely because there is not enough address space.
    pub(super) fn new(slots: u32) -> io::Result<Self> {
        Ok(Self {
            slots: Array::zeroed(length(slots) as usize, Pages::Huge)?,
            counters: Counters::new(),
        })
    }

    /// Returns the size of the array in bytes.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.slots) as u64
    }

    /// Counts a lookup that found its inode by a reference.
    #[inline]
    pub(super) fn count_hit(&self) {
        self.counters.hit(1);
    }

    /// Returns the number of lookups that found their inode by a reference.
    pub(super) fn hits(&self) -> u64 {
        self.counters.sum().hits
    }

    fn element(&self, ino: u32) -> &AtomicU32 {
        &self.slots[ino as usize & (self.slots.len() - 1)]
    }

    /// Returns the slot number in the element of inode `ino`, or `None` if the element has no reference. The
    /// slot may have another inode.
    #[inline]
    pub(super) fn get(&self, ino: u32) -> Option<u32> {
        self.element(ino).load(Relaxed).checked_sub(1)
    }

    /// Sets the element of inode `ino` to a reference to slot `index`.
    pub(super) fn set(&self, ino: u32, index: u32) {
        self.element(ino).store(index + 1, Relaxed);
    }

    /// Removes the reference in the element of inode `ino`.
    pub(super) fn clear(&self, ino: u32) {
        self.element(ino).store(0, Relaxed);
    }
}
