//! The depths of pages in trees. A report contains them instead of chain lengths if pages are in trees.

use serde::{Deserialize, Serialize};

/// The number of pages at each depth in the trees of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeDepths {
    /// The number of trees. Each inode with cached pages has one.
    pub trees: u64,
    /// The number of pages in the largest tree.
    pub largest: u64,
    /// The number of pages at each depth. The first element is for depth 1, the depth of a root.
    pub pages: Vec<u64>,
}

impl TreeDepths {
    /// Returns the number of pages in all trees.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.pages.iter().sum()
    }

    /// Returns the depth of the deepest page.
    #[must_use]
    pub fn deepest(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Returns each depth, starting with 1, and the number of pages at that depth.
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
