//! The key of a page, and its layout in a slot.

use crate::hash::HashKey;
use crate::table::{Layout, Slot};

/// The number of words for key and value in a page's slot.
pub const PAGE_WORDS: usize = 2;

/// The key of a page of a file, or of a page of the device, which contains buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// The inode number of the file. For a page of the device, the number that represents the device.
    pub ino: u64,
    /// The position of the page in the file or device, in pages.
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

/// The layout of a page's slot: the two words are the [`PageKey`].
#[derive(Debug)]
pub struct PageLayout;

impl Layout<PAGE_WORDS> for PageLayout {
    type Key<'k> = PageKey;
    type HashInput = PageKey;

    #[inline]
    fn hash_input(key: &PageKey) -> PageKey {
        *key
    }

    fn hash_input_in(slot: &Slot<PAGE_WORDS>) -> PageKey {
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
