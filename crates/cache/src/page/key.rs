//! The key of a page, and its layout in a slot.

use crate::hash::HashKey;
use crate::table::{Layout, Slot};

/// Number of words in a page's slot.
pub const PAGE_WORDS: usize = 2;

/// A page of a file, or of the device, whose pages hold buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// The file's inode number, or the device's number for its own pages.
    pub ino: u64,
    /// The index of the page.
    pub index: u64,
}

impl From<PageKey> for HashKey {
    #[inline]
    fn from(PageKey { ino, index }: PageKey) -> Self {
        Self { object: ino, index }
    }
}

impl From<PageKey> for u64 {
    #[inline]
    fn from(key: PageKey) -> Self {
        HashKey::from(key).word()
    }
}

/// [`PageKey`] in a slot's two words.
#[derive(Debug)]
pub struct PageLayout;

impl Layout<PAGE_WORDS> for PageLayout {
    type Key<'k> = PageKey;
    type Hashed = PageKey;

    #[inline]
    fn hashed(key: &PageKey) -> PageKey {
        *key
    }

    fn hashed_in(slot: &Slot<PAGE_WORDS>) -> PageKey {
        PageKey {
            ino: slot.word(0),
            index: slot.word(1),
        }
    }

    #[inline]
    fn matches(key: &PageKey, slot: &Slot<PAGE_WORDS>) -> bool {
        slot.word(1) == key.index && slot.word(0) == key.ino
    }

    fn store(key: &PageKey, slot: &Slot<PAGE_WORDS>) {
        slot.set_word(0, key.ino);
        slot.set_word(1, key.index);
    }
}
