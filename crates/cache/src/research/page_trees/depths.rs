//! Measurement of the depths of pages in their trees: the number of nodes that a lookup walks.
//!
//! # Locking
//! A tree is locked while up to [`PART_PAGES`] of its pages are examined, and then unlocked, so that
//! readers are not delayed noticeably. Pages that are inserted or removed during the measurement may be
//! counted or not.

use super::PageTrees;
use crate::page::PageLayout;
use crate::table::{Layout as _, TreeDepths};

/// The largest number of pages that are examined before their tree is unlocked.
const PART_PAGES: usize = 512;

impl PageTrees {
    /// Returns the depths of the pages. Examines every page.
    pub fn depths(&self) -> TreeDepths {
        let mut depths = TreeDepths::default();
        for chain in 0..self.roots.count() {
            for inode in self.inodes_in(chain) {
                let mut pages = 0;
                let mut from = Some(0);
                while let Some(index) = from {
                    from = self.add_part(inode, index, &mut |depth| {
                        depths.add(depth);
                        pages += 1;
                    });
                }
                depths.trees += u64::from(pages > 0);
                depths.largest = depths.largest.max(pages);
            }
        }
        depths
    }

    /// Returns the numbers of the inodes whose roots are in `chain`.
    fn inodes_in(&self, chain: u32) -> Vec<u64> {
        if self.roots.first(chain) == self.roots.end(chain) {
            return Vec::new();
        }
        let locked = self.roots.lock(chain);
        self.arena
            .chain(locked.first())
            .map(|root| PageLayout::hash_input_in(self.arena.slot(root)).ino)
            .collect()
    }

    /// Examines up to [`PART_PAGES`] pages of an inode, from `index` on, and calls `add` with the depth of
    /// each. Returns the index of the next page, or `None` if there is none.
    fn add_part(&self, inode: u64, index: u64, add: &mut impl FnMut(usize)) -> Option<u64> {
        let tree = self.lock_tree(inode);
        let mut at = tree.first_from(index);
        for _ in 0..PART_PAGES {
            let (node, depth) = at?;
            add(depth);
            at = self.nodes.next(node, depth);
        }
        let (node, _) = at?;
        Some(PageLayout::hash_input_in(self.arena.slot(node)).index)
    }
}
