//! The interface of a replacement policy.

use std::fmt::Debug;

/// The number of an object, from 0. The objects of a workload are numbered without gaps.
pub type Object = u32;

/// The value of [`Access::next`] if the object is not accessed again.
pub const NEVER: u32 = u32::MAX;

/// One access to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The object.
    pub object: Object,
    /// The number of the next access to this object, counted over all accesses; [`NEVER`] if the object is not
    /// accessed again, or is removed before its next access. Only Belady's policy uses this number.
    pub next: u32,
}

/// A cache of objects of equal size, with a replacement policy. It contains only the numbers of the objects.
///
/// A policy evicts only if an access misses while the cache is full, and then evicts one object or, like the
/// clock of the frames, a few. Each missed object is inserted.
pub trait Policy: Debug {
    /// Accesses an object, and inserts it if it is not cached. Returns whether it was cached.
    fn access(&mut self, access: Access) -> bool;

    /// Removes an object, for example because its file is deleted. A policy that has a memory of evicted
    /// objects also forgets the object. Does nothing if the object is unknown.
    fn remove(&mut self, object: Object);

    /// Returns the number of cached objects.
    fn cached(&self) -> usize;
}
