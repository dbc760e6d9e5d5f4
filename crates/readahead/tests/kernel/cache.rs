//! The kernel's page cache of one file, as far as readahead sees it.
//!
//! Where all folios are single pages, holes are found where they are. With large folios the
//! kernel finds them elsewhere: a walk that begins inside a large folio looks at that folio's
//! first page, goes on from there, but counts from where it was told to begin. So the next hole
//! seems to lie as far behind its place as the walk began inside its folio, up to the end of a leaf
//! of the tree, and the history of pages before a read is shorter or longer than it is.

use larder_readahead::{Folio, PageIndex, Residency};
use std::collections::BTreeMap;
use std::ops::Range;

/// What is cached of a file.
#[derive(Debug, Default)]
pub struct Cache {
    /// By first page.
    folios: BTreeMap<u64, Cached>,
}

#[derive(Debug)]
pub struct Cached {
    folio: Folio,
    marked: bool,
}

impl Cache {
    /// The folio that holds the page.
    fn get(&self, page: PageIndex) -> Option<&Cached> {
        let (_, cached) = self.folios.range(..=page.0).next_back()?;
        cached.folio.contains(page).then_some(cached)
    }

    /// True if a page from the start of `folio` to its end is cached.
    pub fn overlaps(&self, folio: Folio) -> bool {
        let before_end = self.folios.range(..folio.end().0).next_back();
        before_end.is_some_and(|(_, cached)| cached.folio.end() > folio.start)
    }

    pub fn insert(&mut self, folio: Folio, marked: bool) {
        self.folios.insert(folio.start.0, Cached { folio, marked });
    }

    /// Takes the marker off the folio that holds the page. True if it was there.
    pub fn unmark(&mut self, page: PageIndex) -> bool {
        let cached = self.folios.range_mut(..=page.0).next_back();
        cached.is_some_and(|(_, cached)| {
            cached.folio.contains(page) && std::mem::take(&mut cached.marked)
        })
    }

    /// Drops the folios that lie wholly in the range, and returns them.
    pub fn drop_inside(&mut self, pages: Range<u64>) -> Vec<Folio> {
        let inside = self.folios.range(pages.clone());
        let dropped: Vec<Folio> = inside
            .map(|(_, cached)| cached.folio)
            .filter(|folio| folio.end().0 <= pages.end)
            .collect();
        for folio in &dropped {
            self.folios.remove(&folio.start.0);
        }
        dropped
    }

    /// Where the kernel's walk of its tree of pages begins when it looks for `page`: with large
    /// folios, at the first page of the folio.
    fn begin_walk(&self, page: PageIndex) -> Walk {
        let looked_at = self.get(page).map_or(page.0, |cached| cached.folio.start.0);
        Walk {
            index: page.0,
            looked_at,
        }
    }
}

impl Residency for Cache {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.get(page).is_some()
    }

    fn folio(&self, page: PageIndex) -> Folio {
        self.get(page).unwrap().folio
    }

    fn next_hole(&self, from: PageIndex, scan_pages: u32) -> Option<PageIndex> {
        let mut walk = self.begin_walk(from);
        for _ in 0..scan_pages {
            if !self.is_resident(PageIndex(walk.looked_at)) {
                return Some(PageIndex(walk.index));
            }
            walk.forward();
        }
        None
    }

    fn resident_before(&self, before: PageIndex, scan_pages: u32) -> u32 {
        let Some(last) = before.0.checked_sub(1) else {
            return 0;
        };
        let mut walk = self.begin_walk(PageIndex(last));
        for resident in 0..scan_pages {
            if !self.is_resident(PageIndex(walk.looked_at)) {
                return resident;
            }
            if !walk.backward() {
                return resident + 1;
            }
        }
        scan_pages
    }
}

/// Pages in a leaf of the kernel's tree.
const LEAF_PAGES: u64 = 64;

/// A walk through the leaves of the kernel's tree of pages, which keeps its index apart from its
/// place in a leaf.
struct Walk {
    /// The page that the walk takes itself to be at.
    index: u64,
    /// The page that it looks at.
    looked_at: u64,
}

impl Walk {
    fn forward(&mut self) {
        self.index += 1;
        self.looked_at += 1;
        if self.looked_at.is_multiple_of(LEAF_PAGES) {
            // A new leaf is entered by the index.
            self.looked_at += self.index % LEAF_PAGES;
        }
    }

    /// False where the file begins.
    fn backward(&mut self) -> bool {
        if !self.looked_at.is_multiple_of(LEAF_PAGES) {
            self.index -= 1;
            self.looked_at -= 1;
            return true;
        }
        let Some(index) = self.index.checked_sub(1) else {
            return false;
        };
        self.index = index;
        if index % LEAF_PAGES == 0 {
            return true;
        }
        let Some(leaf) = self.looked_at.checked_sub(LEAF_PAGES) else {
            return false;
        };
        self.looked_at = leaf + index % LEAF_PAGES;
        true
    }
}
