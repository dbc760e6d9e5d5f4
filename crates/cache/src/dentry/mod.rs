//! The dentry cache: what a name in a directory stands for, found by the
//! directory's inode number and the name.
//!
//! # Model
//! `d_lookup`, with negative dentries: that a name does not exist is cached,
//! too. A lookup copies the answer out, without lock or reference count. There
//! is no tree of dentries: nothing here needs a parent to stay.
//!
//! # Names
//! Names up to 39 bytes lie in the slot, which is one cache line of 64 bytes.
//! Longer ones have a table of their own, with slots that hold 255. A name with a zero, which no
//! directory can have, is never cached.
//!
//! # Pressure
//! Each of the two tables is a [`Shrinker`]: entries that were not found since the clock hand passed
//! go, and whole frames of slots go back to the budget. [`crate::tables::Shrinking`] says when they
//! are asked.
//!
//! # Cost
//! 64 bytes a dentry and 4 for a bucket; 280 with a long name.

mod name;
mod name_hash;

pub use name_hash::name_hash;

use crate::hash::Function;
use crate::shrink::Shrinker;
use crate::stats::CacheStats;
use crate::table::ArenaConfig;
use crate::table::histogram::Report;
use crate::table::{Arena, Charge, Growth, SeededHash, Slot, Table};
use crate::tables::TableHash;
use crate::tape::{CacheKind, Tape};
use name::{Name, NameHash, NameLayout};
use std::io;
use std::sync::{Arc, Weak};

/// Words of a slot with a short name: numbers, and 39 bytes.
const SHORT_WORDS: usize = 6;
/// Words of a slot with a long name: numbers, and 255 bytes.
const LONG_WORDS: usize = 33;
/// Size of a slot with a short name in bytes.
pub(crate) const SHORT_BYTES: usize = size_of::<Slot<SHORT_WORDS>>();
/// Size of a slot with a long name in bytes.
pub(crate) const LONG_BYTES: usize = size_of::<Slot<LONG_WORDS>>();

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dentry {
    /// The inode of that number, with the directory entry's file type byte.
    Positive {
        /// Inode number; not 0.
        ino: u32,
        /// File type as in the directory entry.
        file_type: u8,
    },
    /// Nothing: the name does not exist.
    Negative,
}

/// A name, in the form of the table where it belongs.
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack, for one lookup"
)]
enum KeyedName {
    Short(Name<{ SHORT_WORDS - 1 }>),
    Long(Name<{ LONG_WORDS - 1 }>),
}

impl KeyedName {
    /// `None` for a name that no directory can have.
    #[inline]
    fn new(hash: NameHash, parent: u32, name: &[u8]) -> Option<Self> {
        match Name::new(hash, parent, name) {
            Some(name) => Some(Self::Short(name)),
            None => Self::new_long(hash, parent, name),
        }
    }

    #[cold]
    fn new_long(hash: NameHash, parent: u32, name: &[u8]) -> Option<Self> {
        Name::new(hash, parent, name).map(Self::Long)
    }
}

/// A table of names that fit in `N` words; `W` is `N` + 1.
#[derive(Debug)]
struct Names<const N: usize, const W: usize> {
    table: Arc<Table<NameLayout<N>, TableHash<SeededHash>, W>>,
}

impl<const N: usize, const W: usize> Names<N, W> {
    fn new(
        config: ArenaConfig,
        charge: Arc<dyn Charge>,
        hash: TableHash<SeededHash>,
    ) -> io::Result<Self> {
        const { assert!(N + 1 == W) };
        let growth = Growth::Charged {
            chunk: config.chunk,
            charge,
        };
        let arena = Arc::new(Arena::new(config.slots, growth)?);
        Ok(Self {
            table: Arc::new(Table::new(arena, config.bits, 0, hash)?),
        })
    }

    #[inline]
    fn get(&self, name: &Name<N>) -> Option<Dentry> {
        let (ino, file_type) = self.table.copy(name, name::value_in)?;
        Some(match ino {
            0 => Dentry::Negative,
            ino => Dentry::Positive { ino, file_type },
        })
    }

    fn insert(&self, name: &Name<N>, dentry: Dentry) {
        let (ino, file_type) = match dentry {
            Dentry::Positive { ino, file_type } => (ino, file_type),
            Dentry::Negative => (0, 0),
        };
        let Some(vacant) = self.table.take() else {
            self.table.remove(name);
            return;
        };
        let fill = |slot: &Slot<W>| name::set_value(name, slot, ino, file_type);
        self.table.replace(name, vacant, fill);
    }

    fn shrinker(&self) -> Weak<dyn Shrinker> {
        let table: Arc<dyn Shrinker> = self.table.clone();
        Arc::downgrade(&table)
    }

    fn stats(&self) -> CacheStats {
        let capacity = self.table.arena().capacity().into();
        CacheStats::of(&self.table, capacity, 0)
    }

    fn check_invariants(&self) {
        self.table.check_invariants(name::is_same::<N, W>);
    }
}

/// The dentry cache.
#[derive(Debug)]
pub struct DentryCache {
    short: Names<{ SHORT_WORDS - 1 }, SHORT_WORDS>,
    long: Names<{ LONG_WORDS - 1 }, LONG_WORDS>,
    hash: NameHash,
}

impl DentryCache {
    /// A cache of the given sizes, which asks the charges for memory as it grows.
    /// Dentries are found by `function`, or by ours, which depends on `seed`.
    ///
    /// # Errors
    /// The kernel's, for want of address space most likely.
    pub fn new(
        short: (ArenaConfig, Arc<dyn Charge>),
        long: (ArenaConfig, Arc<dyn Charge>),
        function: Option<Function>,
        seed: [u64; 2],
    ) -> io::Result<Self> {
        let seeded = SeededHash::new(seed);
        let hash = TableHash::new(function, seeded);
        Ok(Self {
            short: Names::new(short.0, short.1, hash)?,
            long: Names::new(long.0, long.1, hash)?,
            hash: function.map_or(NameHash::Seeded(seeded), |_| NameHash::Published),
        })
    }

    /// What `name` in directory `parent` stands for, if that is cached. Takes no
    /// lock.
    #[must_use]
    #[inline]
    pub fn get(&self, parent: u32, name: &[u8]) -> Option<Dentry> {
        match KeyedName::new(self.hash, parent, name)? {
            KeyedName::Short(name) => self.short.get(&name),
            KeyedName::Long(name) => self.long.get(&name),
        }
    }

    /// Caches what `name` in directory `parent` stands for, in place of what is
    /// cached for it. If there is no room, nothing is cached for it: never what was
    /// before. Does nothing with a name that no directory can have.
    pub fn insert(&self, parent: u32, name: &[u8], dentry: Dentry) {
        match KeyedName::new(self.hash, parent, name) {
            Some(KeyedName::Short(name)) => self.short.insert(&name, dentry),
            Some(KeyedName::Long(name)) => self.long.insert(&name, dentry),
            None => {}
        }
    }

    /// Drops `name` in directory `parent`; false if it is not cached.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn remove(&self, parent: u32, name: &[u8]) -> bool {
        match KeyedName::new(self.hash, parent, name) {
            Some(KeyedName::Short(name)) => self.short.table.remove(&name),
            Some(KeyedName::Long(name)) => self.long.table.remove(&name),
            None => false,
        }
    }

    /// Tells `tape` of what happens from now on, in both tables.
    pub fn set_tape(&self, tape: &Arc<dyn Tape>) {
        self.short
            .table
            .set_tape(Arc::clone(tape), CacheKind::Dentry);
        self.long
            .table
            .set_tape(Arc::clone(tape), CacheKind::Dentry);
    }

    /// What is to be asked for memory.
    pub(crate) fn shrinkers(&self) -> [Weak<dyn Shrinker>; 2] {
        [self.short.shrinker(), self.long.shrinker()]
    }

    /// The tables' sizes and what lookups cost, of both tables together. Looks at no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.short.stats().and(self.long.stats())
    }

    /// The histogram of chain lengths, of both tables together. Looks at every bucket.
    #[must_use]
    pub fn report(&self) -> Report {
        let tables = [
            (self.short.table.counts(), self.short.table.histogram()),
            (self.long.table.counts(), self.long.table.histogram()),
        ];
        Report::of(CacheKind::Dentry, tables)
    }

    /// Checks the invariants. Only when nobody else uses it.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check_invariants(&self) {
        self.short.check_invariants();
        self.long.check_invariants();
    }
}
