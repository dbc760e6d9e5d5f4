//! Replays a trace in the page cache's own red-black trees.
//!
//! # Model
//! The trees of a mount with `-o tables=larder+page=rbtree`. The number of links walked is the number of
//! pages that are compared with the one sought during the descent of its inode's tree. A lookup pins the page
//! that it finds, as on a mount. A lookup in a table copies it instead, which writes nothing.
//!
//! # Cost
//! 32 bytes for the slot of a page and 12 for its node; 4 for each chain of roots.

use super::replay::Index;
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
    /// Creates trees with `slots` slots, and roots in 2^`bits` chains.
    pub(super) fn new(slots: u32, bits: u32) -> io::Result<Self> {
        let arena = Arc::new(Arena::new(slots, Growth::Prepaid)?);
        let trees = PageTrees::new(Arc::clone(&arena), bits)?;
        Ok(Self { arena, trees })
    }
}

/// Returns the key that a mount uses for the page. Inodes of other devices have separate trees.
fn frame(key: &Key) -> PageKey {
    PageKey {
        ino: key.hashed.object ^ (u64::from(key.device) << 32),
        index: key.hashed.index,
    }
}

impl Index for Trees {
    #[inline]
    fn look_up(&self, key: &Key) -> bool {
        self.trees.get(&frame(key)).is_some()
    }

    fn insert(&self, key: &Key) {
        // There is room for the largest number of objects.
        if let Some(vacant) = self.arena.take_free() {
            self.trees.get_or_insert(&frame(key), vacant, 0, |_| {});
        }
    }

    fn remove(&self, key: &Key) {
        self.trees.remove(&frame(key));
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
