//! Replays the events of pages in the red-black trees that a mount with `-o tables=larder+page=rbtree` uses.
//!
//! # Model
//! Each inode has a tree of its pages. The number of links of a lookup is the number of pages that are
//! compared with the key during the descent of the inode's tree. As on a mount, a lookup pins the page that
//! it finds, and therefore writes to the page's slot. In contrast, a lookup in a table copies the entry and
//! writes nothing.
//!
//! # Cost
//! A page takes 32 bytes for its slot and 12 bytes for its node. A chain of roots takes 4 bytes.

use super::index::Index;
use super::step::Key;
use larder_cache::page::{PAGE_WORDS, PageKey};
use larder_cache::research::page_trees::PageTrees;
use larder_cache::table::{Arena, Counts, Growth, Histogram};
use std::io;
use std::sync::Arc;

/// The trees, and the slots of their pages.
#[derive(Debug)]
pub(super) struct Trees {
    arena: Arc<Arena<PAGE_WORDS>>,
    trees: PageTrees,
}

impl Trees {
    /// Creates an empty set of trees with room for `slots` pages, whose roots are stored in 2^`bits` chains.
    pub(super) fn new(slots: u32, bits: u32) -> io::Result<Self> {
        let arena = Arc::new(Arena::new(slots, Growth::Prepaid)?);
        let trees = PageTrees::new(Arc::clone(&arena), bits)?;
        Ok(Self { arena, trees })
    }
}

/// Returns the key of the page in the trees. Its inode number includes the device, so that inodes of different
/// devices have separate trees.
fn tree_key(key: &Key) -> PageKey {
    PageKey {
        ino: key.hashed.object ^ (u64::from(key.device) << 32),
        index: key.hashed.index,
    }
}

impl Index for Trees {
    #[inline]
    fn look_up(&self, key: &Key) -> bool {
        self.trees.get(&tree_key(key)).is_some()
    }

    fn insert(&self, key: &Key) {
        // The arena has room for the largest number of objects, so this always succeeds.
        if let Some(vacant) = self.arena.take_free() {
            self.trees.get_or_insert(&tree_key(key), vacant, 0, |_| {});
        }
    }

    fn remove(&self, key: &Key) {
        self.trees.remove(&tree_key(key));
    }

    fn counts(&self) -> Counts {
        self.trees.counts()
    }

    fn objects(&self) -> u64 {
        self.trees.objects()
    }

    fn histogram(&self) -> Histogram {
        Histogram::default()
    }
}
