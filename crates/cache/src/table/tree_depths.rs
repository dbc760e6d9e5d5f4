//! What a report has of trees, where a table has chains.

use serde::{Deserialize, Serialize};

/// How many pages lie how deep in the trees of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeDepths {
    /// Trees: inodes with pages.
    pub trees: u64,
    /// Pages of the largest tree.
    pub largest: u64,
    /// Pages by depth, from the roots, which lie one deep.
    pub pages: Vec<u64>,
}

impl TreeDepths {
    /// Pages in all trees.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.pages.iter().sum()
    }

    /// The depth of the deepest page.
    #[must_use]
    pub fn deepest(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Each depth, from 1, and how many pages lie there.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64)> {
        (1..).zip(self.pages.iter().copied())
    }

    pub(crate) fn add(&mut self, depth: usize) {
        if self.pages.len() < depth {
            self.pages.resize(depth, 0);
        }
        self.pages[depth - 1] += 1;
    }
}
