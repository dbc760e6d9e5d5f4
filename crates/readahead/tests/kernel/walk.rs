//! Simulates Linux's search for holes in its page cache. Large folios can make this search return a
//! wrong index.
//!
//! The kernel keeps a file's pages in a tree. A leaf has a slot for each of 64 pages. The node
//! above has a slot for each leaf. If a folio has at least 64 pages, slots of this node refer to
//! the folio instead of leaves. A walk stores the index that it has reached separately from the
//! slot that it examines. If all folios are single pages, index and slot agree. But a walk that
//! begins inside a large folio begins at the folio's first slot. Index and slot then differ until
//! the walk enters a new leaf, which it selects by the index.
//!
//! ```text
//!   from page 6 on: folio 4..7 is present, then a hole at 8
//!   index      6   7   8   9  10   -> the hole seems to be at 10
//!   slot       4   5   6   7   8
//! ```
//!
//! So the next hole seems to be at a higher index than it is, or beyond the range of the search.
//! The run of resident pages before a read seems shorter or longer than it is. As a result, some
//! pages are not read ahead, or a window is not opened. `modern` itself relies on correct results.

use crate::cache::Cache;
use larder_readahead::{PageIndex, Residency};

/// The number of pages of a leaf.
const LEAF_PAGES: u64 = 64;

/// The order of the smallest folios that have slots in the node above the leaves.
const LEAF_ORDER: u8 = 6;

/// The slot that a walk examines.
#[derive(Clone, Copy)]
enum Place {
    /// The slot of this page in its leaf.
    Page(u64),
    /// The slot of this leaf in the node above, which contains a large folio or nothing.
    Leaf(u64),
}

/// A walk through the tree.
pub struct Walk<'a> {
    cache: &'a Cache,
    index: u64,
    place: Place,
}

impl<'a> Walk<'a> {
    pub fn begin(cache: &'a Cache, from: PageIndex) -> Self {
        let place = if cache.is_resident(from) {
            let folio = cache.folio(from);
            if folio.order < LEAF_ORDER {
                Place::Page(folio.start.0)
            } else {
                Place::Leaf(folio.start.0 / LEAF_PAGES)
            }
        } else {
            Place::Page(from.0)
        };
        Self {
            cache,
            index: from.0,
            place,
        }
    }

    /// Returns the page that the walk assumes to be its position.
    pub fn index(&self) -> PageIndex {
        PageIndex(self.index)
    }

    pub fn is_resident(&self) -> bool {
        let page = match self.place {
            Place::Page(page) => page,
            Place::Leaf(leaf) => leaf * LEAF_PAGES,
        };
        self.cache.is_resident(PageIndex(page))
    }

    pub fn forward(&mut self) {
        self.index += 1;
        match self.place {
            Place::Page(page) if page % LEAF_PAGES < LEAF_PAGES - 1 => {
                self.place = Place::Page(page + 1);
            }
            Place::Page(page) => self.enter(page / LEAF_PAGES + 1),
            Place::Leaf(leaf) if leaf == self.index / LEAF_PAGES => {}
            Place::Leaf(leaf) => self.enter(leaf + 1),
        }
    }

    /// Moves one slot back. Returns false at the start of the tree.
    pub fn backward(&mut self) -> bool {
        let Some(index) = self.index.checked_sub(1) else {
            return false;
        };
        self.index = index;
        let leaf = match self.place {
            Place::Page(page) if page % LEAF_PAGES > 0 => {
                self.place = Place::Page(page - 1);
                return true;
            }
            Place::Page(_) if index % LEAF_PAGES == 0 => return true,
            Place::Leaf(leaf) if leaf == index / LEAF_PAGES => return true,
            Place::Page(page) => page / LEAF_PAGES,
            Place::Leaf(leaf) => leaf,
        };
        let Some(before) = leaf.checked_sub(1) else {
            return false;
        };
        self.enter(before);
        true
    }

    /// Moves to the slot of a leaf, and into the leaf if there is one.
    fn enter(&mut self, leaf: u64) {
        let first = leaf * LEAF_PAGES;
        let mut folios = self.cache.starting_in(first..first + LEAF_PAGES);
        self.place = if folios.any(|folio| folio.order < LEAF_ORDER) {
            Place::Page(first + self.index % LEAF_PAGES)
        } else {
            Place::Leaf(leaf)
        };
    }
}
