//! References from dentries to the slots of their inodes.
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
//! The array takes 4 to 8 bytes for each slot of the table. It is not part of the budget.

use crate::sync::{AtomicU32, Relaxed};

/// References to inodes, indexed by inode number.
#[derive(Debug)]
pub(super) struct References {
    /// Each element is the number of a slot plus 1, or 0 if there is no reference.
    slots: Box<[AtomicU32]>,
}

impl References {
    /// Creates an array for a table of `slots` slots.
    pub(super) fn new(slots: u32) -> Self {
        let length = slots.next_power_of_two();
        Self {
            slots: (0..length).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn element(&self, ino: u32) -> &AtomicU32 {
        // The length is a power of two.
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
