//! An ordered set of the page indexes of one file. It stores which pages are dirty.
//!
//! Cost: about 2 bytes for each page of a contiguous range, and 60 bytes for an isolated page.

use std::collections::BTreeMap;
use std::ops::Range;

/// Page indexes, 64 to a word.
#[derive(Debug, Default)]
pub(super) struct PageSet {
    words: BTreeMap<u64, u64>,
}

impl PageSet {
    /// Adds a page, and returns whether it was absent.
    pub(super) fn insert(&mut self, page: u64) -> bool {
        let word = self.words.entry(page / 64).or_default();
        let before = *word;
        *word |= 1 << (page % 64);
        *word != before
    }

    /// Removes a page, and returns whether it was present.
    pub(super) fn remove(&mut self, page: u64) -> bool {
        let Some(word) = self.words.get_mut(&(page / 64)) else {
            return false;
        };
        let before = *word;
        *word &= !(1 << (page % 64));
        let (is_changed, is_empty) = (*word != before, *word == 0);
        if is_empty {
            self.words.remove(&(page / 64));
        }
        is_changed
    }

    pub(super) fn contains(&self, page: u64) -> bool {
        self.words
            .get(&(page / 64))
            .is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the first run of consecutive pages at or after `from` that are not in `except`, truncated to
    /// `most` pages.
    pub(super) fn next_run(&self, from: u64, most: u64, except: &Self) -> Option<Range<u64>> {
        let first = self.words.range(from / 64..).find_map(|(number, word)| {
            let from_bit = from.saturating_sub(number * 64).min(63);
            let hidden = except.words.get(number).copied().unwrap_or(0);
            let left = word & !hidden & (u64::MAX << from_bit);
            (left != 0).then(|| number * 64 + u64::from(left.trailing_zeros()))
        })?;
        let end = (first + 1..first.saturating_add(most))
            .find(|page| !self.contains(*page) || except.contains(*page))
            .unwrap_or(first.saturating_add(most));
        Some(first..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pages: impl IntoIterator<Item = u64>) -> PageSet {
        let mut set = PageSet::default();
        for page in pages {
            assert!(set.insert(page));
        }
        set
    }

    #[test]
    fn run_ends_at_a_gap_at_the_limit_and_at_an_exception() {
        let pages = set([3, 4, 5, 62, 63, 64, 65, 200]);
        let none = PageSet::default();
        assert_eq!(pages.next_run(0, 10, &none), Some(3..6));
        assert_eq!(pages.next_run(4, 10, &none), Some(4..6));
        assert_eq!(pages.next_run(6, 10, &none), Some(62..66));
        assert_eq!(pages.next_run(63, 2, &none), Some(63..65));
        assert_eq!(pages.next_run(66, 10, &none), Some(200..201));
        assert_eq!(pages.next_run(201, 10, &none), None);
        let except = set([3, 64]);
        assert_eq!(pages.next_run(0, 10, &except), Some(4..6));
        assert_eq!(pages.next_run(6, 10, &except), Some(62..64));
        assert_eq!(pages.next_run(64, 10, &except), Some(65..66));
    }

    #[test]
    fn removed_page_is_not_contained_and_the_set_becomes_empty() {
        let mut pages = set([7, 100]);
        assert!(!pages.insert(7) && pages.contains(7));
        assert!(pages.remove(7) && !pages.remove(7) && !pages.remove(8));
        assert!(!pages.contains(7) && !pages.is_empty());
        assert!(pages.remove(100) && pages.is_empty());
    }
}
