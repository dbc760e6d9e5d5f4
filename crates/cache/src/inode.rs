//! The inode cache: raw inodes, found by inode number.
//!
//! # Model
//! `ilookup`, but what it returns is a copy, taken without lock or reference
//! count: 160 bytes are copied faster than two threads can pass a cache line
//! to and fro.
//!
//! # Cost
//! 16 bytes and 8 a word: 176 bytes for a raw inode of 160, and 4 for a bucket.

use crate::budget::ArenaConfig;
use crate::stats::CacheStats;
use crate::table::histogram::Report;
use crate::table::{Arena, Charge, Growth, Hash64, Layout, Slot, Table};
use crate::tape::CacheKind;
use std::io;
use std::sync::Arc;

/// Words of a raw inode of 160 bytes: 128, and the 32 that ext4 adds.
pub const RAW_INODE_WORDS: usize = 20;

/// The inode number in the half word, the value in all words.
#[derive(Debug)]
struct InodeLayout;

impl<const W: usize> Layout<W> for InodeLayout {
    type Key<'k> = u32;
    type Hashed = u32;

    #[inline]
    fn hashed(key: &u32) -> u32 {
        *key
    }

    fn hashed_in(slot: &Slot<W>) -> u32 {
        slot.aux()
    }

    #[inline]
    fn matches(key: &u32, slot: &Slot<W>) -> bool {
        slot.aux() == *key
    }

    fn store(key: &u32, slot: &Slot<W>) {
        slot.set_aux(*key);
    }
}

/// The inode cache, of `W` words an inode.
#[derive(Debug)]
pub struct InodeCache<const W: usize = RAW_INODE_WORDS> {
    table: Table<InodeLayout, Hash64, W>,
}

impl<const W: usize> InodeCache<W> {
    /// Size of an inode's slot in bytes.
    pub const SLOT_BYTES: usize = size_of::<Slot<W>>();

    /// A cache of the given size, which asks `charge` for memory as it grows.
    ///
    /// # Errors
    /// The kernel's, for want of address space most likely.
    pub fn new(config: ArenaConfig, charge: Arc<dyn Charge>) -> io::Result<Self> {
        let growth = Growth::Charged {
            chunk: config.chunk,
            charge,
        };
        let arena = Arc::new(Arena::new(config.slots, growth)?);
        Ok(Self {
            table: Table::new(arena, config.bits, 0, Hash64)?,
        })
    }

    /// The words of inode `ino`. Takes no lock.
    #[must_use]
    #[inline]
    pub fn get(&self, ino: u32) -> Option<[u64; W]> {
        self.table
            .copy(&ino, |slot| std::array::from_fn(|i| slot.word(i)))
    }

    /// Caches `words` for inode `ino`, in place of what is cached for it. If there is
    /// no room, nothing is cached for it: never what was before.
    pub fn insert(&self, ino: u32, words: &[u64; W]) {
        let Some(vacant) = self.table.take() else {
            self.table.remove(&ino);
            return;
        };
        self.table.replace(&ino, vacant, |slot| {
            for (i, word) in words.iter().enumerate() {
                slot.set_word(i, *word);
            }
        });
    }

    /// Drops inode `ino`; false if it is not cached.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn remove(&self, ino: u32) -> bool {
        self.table.remove(&ino)
    }

    /// The table's size and what lookups cost. Looks at no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats::of(&self.table, self.table.arena().capacity().into(), 0)
    }

    /// The histogram of chain lengths. Looks at every bucket.
    #[must_use]
    pub fn report(&self) -> Report {
        let table = &self.table;
        Report::of(CacheKind::Inode, [(table.counts(), table.histogram())])
    }

    /// Checks the invariants. Only when nobody else uses it.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check_invariants(&self) {
        self.table.check_invariants(|a, b| a.aux() == b.aux());
    }
}
