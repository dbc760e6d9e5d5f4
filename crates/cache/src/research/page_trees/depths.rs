//! The depths of pages in their trees, which a lookup has to walk.
//!
//! # Locking
//! A tree is locked for only a few hundred of its pages at once, so that readers are not delayed
//! noticeably. Pages that are inserted or removed in between may be counted or not.

use super::PageTrees;
use crate::page::PageLayout;
use crate::table::{Layout as _, TreeDepths};

/// Number of pages that are examined while their tree is locked.
const PIECE_PAGES: usize = 512;

impl PageTrees {
    /// Returns the depths of the pages. Examines every page.
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

    /// Returns the inodes whose roots are in a chain.
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

    /// Calls `add` with the depths of an inode's next pages, from `index` on. Returns the index at which
    /// to continue.
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
