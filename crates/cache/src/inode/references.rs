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

/// The content of an element: the number of a slot plus 1, or 0 if there is no reference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference(u32);

impl Reference {
    /// Returns the number of the slot, or `None` if there is no reference. The slot may have another inode.
    pub(super) fn slot(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// References to inodes, indexed by inode number.
#[derive(Debug)]
pub(super) struct References {
    /// The elements ([`Reference`]). The length is a power of two.
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

    /// Returns the element of inode `ino`. The inodes of a block group, usually 8192, are in consecutive elements. The
    /// groups begin at scattered elements, because the first inodes of each group are used most.
    fn element(&self, ino: u32) -> &AtomicU32 {
        let place = ino.wrapping_add((ino >> 13).wrapping_mul(0x9E37_79B1));
        &self.slots[place as usize & (self.slots.len() - 1)]
    }

    /// Returns the reference in the element of inode `ino`.
    #[inline]
    pub(super) fn get(&self, ino: u32) -> Reference {
        Reference(self.element(ino).load(Relaxed))
    }

    /// Sets the element of inode `ino` to a reference to slot `index`.
    pub(super) fn set(&self, ino: u32, index: u32) {
        self.element(ino).store(index + 1, Relaxed);
    }

    /// Sets the element of inode `ino` to a reference to slot `index`, unless the element has changed since it was `seen`.
    /// So a slow reader does not replace a newer reference.
    pub(super) fn set_unless_changed(&self, ino: u32, seen: Reference, index: u32) {
        let element = self.element(ino);
        let _ = element.compare_exchange(seen.0, index + 1, Relaxed, Relaxed);
    }

    /// Removes the reference in the element of inode `ino`.
    pub(super) fn clear(&self, ino: u32) {
        self.element(ino).store(0, Relaxed);
    }
}
