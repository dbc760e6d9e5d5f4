//! The dentry cache: maps a directory's inode number and a name to an inode.
//!
//! # Model
//! `d_lookup`, with negative dentries: the fact that a name does not exist is cached, too. A lookup
//! copies the result, without lock or reference count. There is no tree of dentries: no entry needs
//! its parent to be cached.
//!
//! # Names
//! Names up to 39 bytes are stored in the slot, which is one cache line of 64 bytes. Longer ones
//! have a separate table, with slots for 255 bytes. A name that contains a zero byte, which is
//! invalid in a directory, is never cached.
//!
//! # Pressure
//! Each of the two tables is a [`Shrinker`]. Entries that were not found since the clock hand passed
//! are evicted, and whole frames of slots return to the budget. [`crate::tables::Shrinking`]
//! describes when the tables are shrunk.
//!
//! # Cost
//! 64 bytes for a dentry and 4 for a bucket; 280 for a dentry with a long name.

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

/// The result of a lookup of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dentry {
    /// The name exists. This is its inode, with the file type byte of the directory entry.
    Positive {
        /// Inode number; not 0.
        ino: u32,
        /// File type as in the directory entry.
        file_type: u8,
    },
    /// The name does not exist.
    Negative,
}

/// A name, in the form of its table.
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack, for one lookup"
)]
enum KeyedName {
    Short(Name<{ SHORT_WORDS - 1 }>),
    Long(Name<{ LONG_WORDS - 1 }>),
}

impl KeyedName {
    /// Converts `name`. Returns `None` for a name that is invalid in a directory.
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

/// A table of names that fit into `N` words; `W` is `N` + 1.
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
        let Some(vacant) = self.table.allocate() else {
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
    /// Creates a cache of the given sizes, which charges memory as it grows. Dentries are hashed
    /// with `function`, or with Larder's own function, which depends on `seed`.
    ///
    /// # Errors
    /// Those of the kernel, most likely because there is not enough address space.
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

    /// Returns the cached entry of `name` in directory `parent`. Takes no lock.
    #[must_use]
    #[inline]
    pub fn get(&self, parent: u32, name: &[u8]) -> Option<Dentry> {
        match KeyedName::new(self.hash, parent, name)? {
            KeyedName::Short(name) => self.short.get(&name),
            KeyedName::Long(name) => self.long.get(&name),
        }
    }

    /// Caches the entry of `name` in directory `parent`, and replaces a previous one. If there is no
    /// room, no entry remains for the name, not even the previous one. An invalid name is ignored.
    pub fn insert(&self, parent: u32, name: &[u8], dentry: Dentry) {
        match KeyedName::new(self.hash, parent, name) {
            Some(KeyedName::Short(name)) => self.short.insert(&name, dentry),
            Some(KeyedName::Long(name)) => self.long.insert(&name, dentry),
            None => {}
        }
    }

    /// Removes `name` in directory `parent`. Returns false if it is not cached.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn remove(&self, parent: u32, name: &[u8]) -> bool {
        match KeyedName::new(self.hash, parent, name) {
            Some(KeyedName::Short(name)) => self.short.table.remove(&name),
            Some(KeyedName::Long(name)) => self.long.table.remove(&name),
            None => false,
        }
    }

    /// Reports all further events of both tables to `tape`.
    pub fn set_tape(&self, tape: &Arc<dyn Tape>) {
        self.short
            .table
            .set_tape(Arc::clone(tape), CacheKind::Dentry);
        self.long
            .table
            .set_tape(Arc::clone(tape), CacheKind::Dentry);
    }

    /// Returns the shrinkers of the tables.
    pub(crate) fn shrinkers(&self) -> [Weak<dyn Shrinker>; 2] {
        [self.short.shrinker(), self.long.shrinker()]
    }

    /// Returns the size and the cost of lookups, of both tables together. Examines no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.short.stats().and(self.long.stats())
    }

    /// Returns the histogram of chain lengths, of both tables together. Examines every bucket.
    #[must_use]
    pub fn report(&self) -> Report {
        let tables = [
            (self.short.table.counts(), self.short.table.histogram()),
            (self.long.table.counts(), self.long.table.histogram()),
        ];
        Report::of(CacheKind::Dentry, tables)
    }

    /// Checks the invariants. There must be no other users meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self) {
        self.short.check_invariants();
        self.long.check_invariants();
    }
}
