//! How deep pages lie in their trees, which is what a lookup of them walks.
//!
//! # Locking
//! A tree is locked for so many of its pages at once that a reader does not notice. What is inserted and
//! removed in between may be counted or not.

use super::PageTrees;
use crate::page::PageLayout;
use crate::table::{Layout as _, TreeDepths};

/// Pages that are looked at while their tree is locked.
const PIECE_PAGES: usize = 512;

impl PageTrees {
    /// How deep the pages lie. Looks at every page.
    pub fn depths(&self) -> TreeDepths {
        let mut depths = TreeDepths::default();
        for chain in 0..self.roots.count() {
            for inode in self.inodes_in(chain) {
                let mut pages = 0;
                let mut from = Some(0);
                while let Some(index) = from {
                    from = self.add_piece(inode, index, &mut |depth| {
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

    /// The inodes whose roots are in a chain.
    fn inodes_in(&self, chain: u32) -> Vec<u64> {
        if self.roots.first(chain) == self.roots.end(chain) {
            return Vec::new();
        }
        let locked = self.roots.lock(chain);
        self.arena
            .chain(locked.first())
            .map(|root| PageLayout::hashed_in(self.arena.slot(root)).ino)
            .collect()
    }

    /// Tells `add` the depths of an inode's next pages, from `index` on; returns the index to go on from.
    fn add_piece(&self, inode: u64, index: u64, add: &mut impl FnMut(usize)) -> Option<u64> {
        let tree = self.lock_tree(inode);
        let mut at = tree.first_from(index);
        for _ in 0..PIECE_PAGES {
            let (node, depth) = at?;
            add(depth);
            at = self.nodes.next(node, depth);
        }
        let (node, _) = at?;
        Some(PageLayout::hashed_in(self.arena.slot(node)).index)
    }
}
