//! The kernel's page cache of one file, as far as it affects readahead.

use crate::walk::Walk;
use larder_readahead::{Folio, PageIndex, Residency};
use std::collections::BTreeMap;
use std::ops::Range;

/// The cached folios of a file.
#[derive(Debug, Default)]
pub struct Cache {
    /// Folios by their first page.
    folios: BTreeMap<u64, Cached>,
}

#[derive(Debug)]
pub struct Cached {
    folio: Folio,
    marked: bool,
}

impl Cache {
    /// Returns the folio that contains the page.
    fn get(&self, page: PageIndex) -> Option<&Cached> {
        let (_, cached) = self.folios.range(..=page.0).next_back()?;
        cached.folio.contains(page).then_some(cached)
    }

    /// Returns true if a page of `folio` is cached.
    pub fn overlaps(&self, folio: Folio) -> bool {
        let before_end = self.folios.range(..folio.end().0).next_back();
        before_end.is_some_and(|(_, cached)| cached.folio.end() > folio.start)
    }

    pub fn insert(&mut self, folio: Folio, marked: bool) {
        self.folios.insert(folio.start.0, Cached { folio, marked });
    }

    /// Removes the marker from the folio that contains the page. Returns true if the folio had the
    /// marker.
    pub fn unmark(&mut self, page: PageIndex) -> bool {
        let cached = self.folios.range_mut(..=page.0).next_back();
        cached.is_some_and(|(_, cached)| {
            cached.folio.contains(page) && std::mem::take(&mut cached.marked)
        })
    }

    /// Drops the folios that are completely inside the range, and returns them.
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

    /// Returns the folios that begin in the range, by their first page.
    pub fn starting_in(&self, pages: Range<u64>) -> impl Iterator<Item = Folio> {
        self.folios.range(pages).map(|(_, cached)| cached.folio)
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
        let mut walk = Walk::begin(self, from);
        for _ in 0..scan_pages {
            if !walk.is_resident() {
                return Some(walk.index());
            }
            walk.forward();
        }
        None
    }

    fn resident_before(&self, before: PageIndex, scan_pages: u32) -> u32 {
        let Some(last) = before.0.checked_sub(1) else {
            return 0;
        };
        let mut walk = Walk::begin(self, PageIndex(last));
        for resident in 0..scan_pages {
            if !walk.is_resident() {
                return resident;
            }
            if !walk.backward() {
                return resident + 1;
            }
        }
        scan_pages
    }
}
