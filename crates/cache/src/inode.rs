//! The inode cache: raw inodes, found by inode number.
//!
//! # Model
//! `ilookup`, but what it returns is a copy, taken without lock or reference
//! count: 160 bytes are copied faster than two threads can pass a cache line
//! to and fro.
//!
//! # Pressure
//! The table is a [`Shrinker`], as those of dentries.
//!
//! # Cost
//! 16 bytes and 8 a word: 176 bytes for a raw inode of 160, and 4 for a bucket.

use crate::hash::{Function, HashKey};
use crate::shrink::Shrinker;
use crate::stats::CacheStats;
use crate::table::ArenaConfig;
use crate::table::histogram::Report;
use crate::table::{Arena, Charge, Growth, Hash64, Layout, Slot, Table};
use crate::tables::TableHash;
use crate::tape::{CacheKind, Tape};
use std::io;
use std::sync::{Arc, Weak};

/// Words of a raw inode of 160 bytes: 128, and the 32 that ext4 adds.
pub const RAW_INODE_WORDS: usize = 20;

/// What the hash function sees of an inode: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hashed(u32);

impl From<Hashed> for u64 {
    #[inline]
    fn from(hashed: Hashed) -> Self {
        hashed.0.into()
    }
}

impl From<Hashed> for HashKey {
    fn from(hashed: Hashed) -> Self {
        Self {
            // The only volume.
            object: 0,
            index: hashed.0.into(),
        }
    }
}

/// The inode number in the half word, the value in all words.
#[derive(Debug)]
struct InodeLayout;

impl<const W: usize> Layout<W> for InodeLayout {
    type Key<'k> = u32;
    type Hashed = Hashed;

    #[inline]
    fn hashed(key: &u32) -> Hashed {
        Hashed(*key)
    }

    fn hashed_in(slot: &Slot<W>) -> Hashed {
        Hashed(slot.aux())
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
    table: Arc<Table<InodeLayout, TableHash<Hash64>, W>>,
}

impl<const W: usize> InodeCache<W> {
    /// Size of an inode's slot in bytes.
    pub const SLOT_BYTES: usize = size_of::<Slot<W>>();

    /// A cache of the given size, which asks `charge` for memory as it grows. Inodes are found by
    /// `function`, or by ours.
    ///
    /// # Errors
    /// The kernel's, for want of address space most likely.
    pub fn new(
        config: ArenaConfig,
        charge: Arc<dyn Charge>,
        function: Option<Function>,
    ) -> io::Result<Self> {
        let growth = Growth::Charged {
            chunk: config.chunk,
            charge,
        };
        let arena = Arc::new(Arena::new(config.slots, growth)?);
        let hash = TableHash::new(function, Hash64);
        Ok(Self {
            table: Arc::new(Table::new(arena, config.bits, 0, hash)?),
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

    /// Tells `tape` of what happens from now on.
    pub fn set_tape(&self, tape: Arc<dyn Tape>) {
        self.table.set_tape(tape, CacheKind::Inode);
    }

    /// What is to be asked for memory.
    pub(crate) fn shrinker(&self) -> Weak<dyn Shrinker> {
        let table: Arc<dyn Shrinker> = self.table.clone();
        Arc::downgrade(&table)
    }

    /// The table's size and what lookups cost. Looks at no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let capacity = self.table.arena().capacity().into();
        CacheStats::of(&self.table, capacity, 0)
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
