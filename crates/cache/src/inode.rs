//! The inode cache: raw inodes, found by inode number.
//!
//! # Model
//! `ilookup`, except that a lookup returns a copy, and neither takes a lock nor increments a reference count.
//! Incrementing a count would write to a cache line that other processors use. A copy of 160 bytes is faster
//! than the transfer of this line between two processors.
//!
//! # Reclaim
//! The table is a [`Shrinker`], like the tables of dentries.
//!
//! # Cost
//! An inode takes 16 bytes plus 8 for each word: 176 bytes for a raw inode of 160 bytes. A bucket takes 4
//! bytes. With [`InodeLookups::AfterDentryMisses`], an array of slot numbers (`References`) takes another 2
//! to 4 bytes for each slot.

mod references;

pub(crate) use references::references_bytes;

use crate::hash::{Function, HashKey};
use crate::shrink::Shrinker;
use crate::stats::CacheStats;
use crate::table::ArenaConfig;
use crate::table::histogram::Report;
use crate::table::{Arena, Charge, Growth, Hash64, Layout, Slot, Table};
use crate::tables::{InodeLookups, TableHash};
use crate::tape::{CacheKind, Tape};
use references::References;
use std::io;
use std::sync::{Arc, Weak};

/// The number of words of a raw inode of 160 bytes: the 128 bytes of ext2, and 32 that ext4 adds.
pub const RAW_INODE_WORDS: usize = 20;

/// The input of the hash function: the inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HashInput(u32);

impl From<HashInput> for u64 {
    #[inline]
    fn from(input: HashInput) -> Self {
        input.0.into()
    }
}

impl From<HashInput> for HashKey {
    fn from(input: HashInput) -> Self {
        Self {
            // The number of the volume is always 0, because a cache belongs to one volume.
            object: 0,
            index: input.0.into(),
        }
    }
}

/// The layout of a slot: the inode number is in the slot's half word ([`Slot::aux`], 32 bits next to the link),
/// and the raw inode is in the words.
#[derive(Debug)]
struct InodeLayout;

impl<const W: usize> Layout<W> for InodeLayout {
    type Key<'k> = u32;
    type HashInput = HashInput;

    #[inline]
    fn hash_input(key: &u32) -> HashInput {
        HashInput(*key)
    }

    fn hash_input_in(slot: &Slot<W>) -> HashInput {
        HashInput(slot.aux())
    }

    #[inline]
    fn matches(key: &u32, slot: &Slot<W>) -> bool {
        slot.aux() == *key
    }

    fn store(key: &u32, slot: &Slot<W>) {
        slot.set_aux(*key);
    }
}

/// A cache of raw inodes of `W` words each.
#[derive(Debug)]
pub struct InodeCache<const W: usize = RAW_INODE_WORDS> {
    table: Arc<Table<InodeLayout, TableHash<Hash64>, W>>,
    /// `None` if all lookups use the table.
    references: Option<References>,
}

impl<const W: usize> InodeCache<W> {
    /// The size of an inode's slot in bytes.
    pub const SLOT_BYTES: usize = size_of::<Slot<W>>();

    /// Creates a cache with the sizes in `config`. It reserves memory from `charge` as it grows. Inode
    /// numbers are hashed with `function`, or with [`Hash64`] if that is `None`. `lookups` determines which
    /// lookups use the table.
    ///
    /// # Errors
    /// Returns the kernel's error, most likely because there is not enough address space.
    pub fn new(
        config: ArenaConfig,
        charge: Arc<dyn Charge>,
        function: Option<Function>,
        lookups: InodeLookups,
    ) -> io::Result<Self> {
        let growth = Growth::Charged {
            chunk: config.chunk,
            charge,
        };
        let arena = Arc::new(Arena::new(config.slots, growth)?);
        let hash = TableHash::new(function, Hash64);
        Ok(Self {
            table: Arc::new(Table::new(arena, config.bits, 0, hash)?),
            references: match lookups {
                InodeLookups::All => None,
                InodeLookups::AfterDentryMisses => Some(References::new(config.slots)?),
            },
        })
    }

    /// Returns the words of inode `ino` if it is cached. Takes no lock.
    #[must_use]
    #[inline]
    pub fn get(&self, ino: u32) -> Option<[u64; W]> {
        let words = |slot: &Slot<W>| std::array::from_fn(|i| slot.word(i));
        let Some(references) = &self.references else {
            return self.table.copy(&ino, words);
        };
        let seen = references.get(ino);
        if let Some(index) = seen.slot()
            && let Some(words) = self.table.copy_at(index, &ino, words)
        {
            references.count_hit();
            return Some(words);
        }
        let (index, words) = self.table.copy_with_index(&ino, words)?;
        references.set_unless_changed(ino, seen, index);
        Some(words)
    }

    /// Records that no cached dentry referred to inode `ino`, so that the next lookup of the inode uses the
    /// table.
    pub fn dentry_missed(&self, ino: u32) {
        if let Some(references) = &self.references {
            references.clear(ino);
        }
    }

    /// Caches `words` for inode `ino`, and removes a previous entry of the inode. If no slot can be
    /// allocated, only removes the previous entry.
    pub fn insert(&self, ino: u32, words: &[u64; W]) {
        let Some(vacant) = self.table.allocate() else {
            self.table.remove(&ino);
            return;
        };
        let index = self.table.replace(&ino, vacant, |slot| {
            for (i, word) in words.iter().enumerate() {
                slot.set_word(i, *word);
            }
        });
        if let Some(references) = &self.references {
            references.set(ino, index);
        }
    }

    /// Removes inode `ino`. Returns false if it is not cached.
    #[expect(clippy::must_use_candidate, reason = "may be called for its effect")]
    pub fn remove(&self, ino: u32) -> bool {
        self.table.remove(&ino)
    }

    /// Connects `tape`. From then on, the cache reports its events to it.
    pub fn set_tape(&self, tape: Arc<dyn Tape>) {
        self.table.set_tape(tape, CacheKind::Inode);
    }

    /// Returns the shrinker of the table.
    pub(crate) fn shrinker(&self) -> Weak<dyn Shrinker> {
        let table: Arc<dyn Shrinker> = self.table.clone();
        Arc::downgrade(&table)
    }

    /// Returns the size of the table, and the counts of lookups, including those that found their inode by a
    /// reference. Examines no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let capacity = self.table.arena().capacity().into();
        let stats = CacheStats::of(&self.table, capacity, 0);
        match &self.references {
            Some(references) => stats.with_references(references.hits(), references.bytes()),
            None => stats,
        }
    }

    /// Returns the histogram of chain lengths, and the counts of lookups in the table. Examines every bucket.
    #[must_use]
    pub fn report(&self) -> Report {
        let table = &self.table;
        Report::of(CacheKind::Inode, [(table.counts(), table.histogram())])
    }

    /// Checks the invariants. No other thread may use the cache meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self) {
        self.table.check_invariants(|a, b| a.aux() == b.aux());
    }
}
