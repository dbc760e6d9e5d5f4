//! Which clusters of the file of an overlay are used.

use super::header::{Geometry, REFCOUNT_BYTES};
use std::collections::BTreeSet;

/// The size of a sector of the refcount blocks in bytes. Only changed sectors are written.
pub(super) const SECTOR_BYTES: u64 = 512;
/// The number of reference counts in a sector.
const SECTOR_COUNTS: u64 = SECTOR_BYTES / REFCOUNT_BYTES;
const WORD_BITS: u64 = 64;

/// The used clusters of the file, and the reference counts that are not written to the file yet.
#[derive(Debug)]
pub(super) struct Space {
    /// A bit for each cluster.
    used: Vec<u64>,
    clusters: u64,
    /// All clusters before this one are used.
    next: u64,
    /// The sectors of the refcount blocks that differ from those in the file, by number.
    dirty: BTreeSet<u64>,
}

impl Space {
    /// Returns the space of a file in which only the fixed clusters are used.
    pub(super) fn new(geometry: &Geometry) -> Self {
        let words = usize::try_from(geometry.clusters.div_ceil(WORD_BITS)).unwrap_or(usize::MAX);
        let mut space = Self {
            used: vec![0; words],
            clusters: geometry.clusters,
            next: geometry.fixed_clusters(),
            dirty: BTreeSet::new(),
        };
        for cluster in 0..geometry.fixed_clusters() {
            space.set(cluster, true);
        }
        space
    }

    /// Returns the index of the word with the bit of `cluster`, and the bit.
    fn bit(cluster: u64) -> (usize, u64) {
        let index = usize::try_from(cluster / WORD_BITS).unwrap_or(usize::MAX);
        (index, 1 << (cluster % WORD_BITS))
    }

    fn is_used(&self, cluster: u64) -> bool {
        let (index, bit) = Self::bit(cluster);
        self.used.get(index).is_some_and(|word| word & bit != 0)
    }

    fn set(&mut self, cluster: u64, is_used: bool) {
        let (index, bit) = Self::bit(cluster);
        if let Some(word) = self.used.get_mut(index) {
            *word = if is_used { *word | bit } else { *word & !bit };
        }
    }

    /// Returns the number of the first cluster after the last one that is used.
    pub(super) fn end(&self) -> u64 {
        let last = self
            .used
            .iter()
            .enumerate()
            .rev()
            .find(|(_, word)| **word != 0);
        last.map_or(0, |(index, word)| {
            (index as u64 + 1) * WORD_BITS - u64::from(word.leading_zeros())
        })
    }

    /// Records that a table refers to `cluster`. Returns false if the cluster does not exist, or is used already.
    pub(super) fn claim(&mut self, cluster: u64) -> bool {
        let is_free = cluster < self.clusters && !self.is_used(cluster);
        if is_free {
            self.set(cluster, true);
        }
        is_free
    }

    /// Returns a free cluster, which is then used. Returns `None` if all are used.
    pub(super) fn allocate(&mut self) -> Option<u64> {
        while self.next < self.clusters && self.is_used(self.next) {
            self.next += 1;
        }
        let cluster = self.next;
        if !self.claim(cluster) {
            return None;
        }
        self.dirty.insert(cluster / SECTOR_COUNTS);
        Some(cluster)
    }

    /// Frees `cluster`, which was allocated, and to which no table refers.
    pub(super) fn free(&mut self, cluster: u64) {
        self.set(cluster, false);
        self.next = self.next.min(cluster);
        self.dirty.insert(cluster / SECTOR_COUNTS);
    }

    /// Returns the number of sectors of the refcount blocks that contain counts of clusters.
    pub(super) fn sectors(&self) -> u64 {
        self.clusters.div_ceil(SECTOR_COUNTS)
    }

    /// Compares a sector of the refcount blocks with the used clusters. If it differs, it is written by the next flush.
    pub(super) fn check_sector(&mut self, sector: u64, bytes: &[u8]) {
        if self.sector(sector) != bytes {
            self.dirty.insert(sector);
        }
    }

    /// Returns a sector of the refcount blocks.
    pub(super) fn sector(&self, sector: u64) -> Vec<u8> {
        let clusters = sector * SECTOR_COUNTS..(sector + 1) * SECTOR_COUNTS;
        let counts = clusters.flat_map(|cluster| u16::from(self.is_used(cluster)).to_be_bytes());
        counts.collect()
    }

    /// Removes and returns the sectors that differ from those in the file.
    pub(super) fn take_dirty(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.dirty)
    }

    /// Records that `sectors` were not written.
    pub(super) fn restore_dirty(&mut self, sectors: BTreeSet<u64>) {
        self.dirty.extend(sectors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_clusters_are_allocated_in_order_and_reused() {
        let geometry = Geometry::new(1 << 20).unwrap();
        let fixed = geometry.fixed_clusters();
        let mut space = Space::new(&geometry);
        assert!(space.claim(fixed + 1) && !space.claim(fixed + 1) && !space.claim(0));
        assert!(!space.claim(geometry.clusters));
        assert_eq!(space.allocate(), Some(fixed));
        assert_eq!(space.end(), fixed + 2);
        assert_eq!(space.allocate(), Some(fixed + 2));
        assert_eq!(space.end(), fixed + 3);
        space.free(fixed);
        assert_eq!(space.allocate(), Some(fixed));
        let left = std::iter::from_fn(|| space.allocate()).count() as u64;
        assert_eq!(left, geometry.clusters - fixed - 3);
        assert_eq!(space.end(), geometry.clusters);
    }

    #[test]
    fn sector_that_differs_is_dirty() {
        let geometry = Geometry::new(1 << 30).unwrap();
        let mut space = Space::new(&geometry);
        let first = space.sector(0);
        space.check_sector(0, &first);
        assert!(space.take_dirty().is_empty());
        // A cluster that is not used has a reference count.
        let mut leaked = space.sector(1);
        leaked[1] = 1;
        space.check_sector(1, &leaked);
        assert_eq!(space.take_dirty(), [1].into());
        assert_eq!(space.sector(1), [0; 512]);
    }
}
