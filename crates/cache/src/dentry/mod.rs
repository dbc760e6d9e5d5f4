//! The dentry cache: maps a directory's inode number and a name to an inode.
//!
//! # Model
//! `d_lookup`, with negative dentries, which record that a name does not exist. A lookup returns a copy, and
//! neither takes a lock nor increments a reference count. There is no tree of dentries, so a dentry can be
//! cached without its parent.
//!
//! # Names
//! There are two tables. In one table, each slot is a cache line of 64 bytes, for a name of up to 39 bytes.
//! In the other table, each slot has room for a name of 255 bytes. A name that contains a zero byte, which is
//! invalid in a directory, is never cached.
//!
//! # Reclaim
//! Each table is a [`Shrinker`]: it evicts dentries that no lookup has found since the clock hand last
//! passed them. If all slots of a chunk are free, the memory of the chunk returns to the pool of frames.
//! [`Shrinking`](crate::tables::Shrinking) describes when the tables are shrunk.
//!
//! # Cost
//! A dentry takes 64 bytes, or 280 if its name is long. A bucket takes 4 bytes.

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

/// The number of words in a slot for a short name: one for inode numbers, and five for 39 bytes and the type.
const SHORT_WORDS: usize = 6;
/// The number of words in a slot for a long name: one for inode numbers, and 32 for 255 bytes and the type.
const LONG_WORDS: usize = 33;
/// The size of a slot for a short name in bytes.
pub(crate) const SHORT_BYTES: usize = size_of::<Slot<SHORT_WORDS>>();
/// The size of a slot for a long name in bytes.
pub(crate) const LONG_BYTES: usize = size_of::<Slot<LONG_WORDS>>();

/// The result of a lookup of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dentry {
    /// The name exists.
    Positive {
        /// The inode number of the file. It is not 0.
        ino: u32,
        /// The file type, with the value that the directory entry has.
        file_type: u8,
    },
    /// The name does not exist.
    Negative,
}

/// A name, in the form in which its table stores it.
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack, for one lookup"
)]
enum KeyedName {
    Short(Name<{ SHORT_WORDS - 1 }>),
    Long(Name<{ LONG_WORDS - 1 }>),
}

impl KeyedName {
    /// Converts `name`. Returns `None` if the name is invalid in a directory.
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

/// A table of names that fit into `N` words. A slot has `W` words, one more than `N`.
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

    /// Calls `found` with the names of the files for which `is_wanted` returns true.
    fn find_names(&self, is_wanted: &dyn Fn(u32) -> bool, found: &mut dyn FnMut(CachedName)) {
        self.table.for_each(|slot| {
            let (ino, _) = name::value_in(slot);
            if ino != 0 && is_wanted(ino) {
                let (parent, name) = name::key_in(slot);
                let name = name.take_while(|byte| *byte != 0).collect();
                found(CachedName { ino, parent, name });
            }
        });
    }

    fn stats(&self) -> CacheStats {
        let capacity = self.table.arena().capacity().into();
        CacheStats::of(&self.table, capacity, 0)
    }

    fn check_invariants(&self) {
        self.table.check_invariants(name::is_same::<N, W>);
    }
}

/// The name of a file in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedName {
    /// The inode number of the file.
    pub ino: u32,
    /// The inode number of the directory.
    pub parent: u32,
    /// The name.
    pub name: Box<[u8]>,
}

/// The dentry cache.
#[derive(Debug)]
pub struct DentryCache {
    short: Names<{ SHORT_WORDS - 1 }, SHORT_WORDS>,
    long: Names<{ LONG_WORDS - 1 }, LONG_WORDS>,
    hash: NameHash,
}

impl DentryCache {
    /// Creates a cache with tables for short and long names. For each table, the arguments are its
    /// configuration, and the source from which it reserves memory as it grows. Dentries are hashed with
    /// `function`, or with Larder's own function and `seed` if `function` is `None`.
    ///
    /// # Errors
    /// Returns the kernel's error, most likely because there is not enough address space.
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

    /// Returns the dentry of `name` in directory `parent` if it is cached. Takes no lock.
    #[must_use]
    #[inline]
    pub fn get(&self, parent: u32, name: &[u8]) -> Option<Dentry> {
        match KeyedName::new(self.hash, parent, name)? {
            KeyedName::Short(name) => self.short.get(&name),
            KeyedName::Long(name) => self.long.get(&name),
        }
    }

    /// Caches `dentry` for `name` in directory `parent`, and removes a previous dentry of the name. If no
    /// slot can be allocated, only removes the previous dentry. Has no effect if the name is invalid.
    pub fn insert(&self, parent: u32, name: &[u8], dentry: Dentry) {
        match KeyedName::new(self.hash, parent, name) {
            Some(KeyedName::Short(name)) => self.short.insert(&name, dentry),
            Some(KeyedName::Long(name)) => self.long.insert(&name, dentry),
            None => {}
        }
    }

    /// Removes the dentry of `name` in directory `parent`. Returns false if it is not cached.
    #[expect(clippy::must_use_candidate, reason = "may be called for its effect")]
    pub fn remove(&self, parent: u32, name: &[u8]) -> bool {
        match KeyedName::new(self.hash, parent, name) {
            Some(KeyedName::Short(name)) => self.short.table.remove(&name),
            Some(KeyedName::Long(name)) => self.long.table.remove(&name),
            None => false,
        }
    }

    /// Calls `found` with the cached names of the files for which `is_wanted` returns true. Examines every bucket, and
    /// briefly locks those in use. Does not count as a lookup. The functions must not use the cache.
    pub fn find_names(&self, is_wanted: &dyn Fn(u32) -> bool, found: &mut dyn FnMut(CachedName)) {
        self.short.find_names(is_wanted, found);
        self.long.find_names(is_wanted, found);
    }

    /// Connects `tape`. From then on, both tables report their events to it.
    pub fn set_tape(&self, tape: &Arc<dyn Tape>) {
        self.short
            .table
            .set_tape(Arc::clone(tape), CacheKind::Dentry);
        self.long
            .table
            .set_tape(Arc::clone(tape), CacheKind::Dentry);
    }

    /// Returns the shrinkers of both tables.
    pub(crate) fn shrinkers(&self) -> [Weak<dyn Shrinker>; 2] {
        [self.short.shrinker(), self.long.shrinker()]
    }

    /// Returns the total size and the total lookup counts of the two tables. Examines no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.short.stats().and(self.long.stats())
    }

    /// Returns one histogram of the chain lengths of both tables. Examines every bucket.
    #[must_use]
    pub fn report(&self) -> Report {
        let tables = [
            (self.short.table.counts(), self.short.table.histogram()),
            (self.long.table.counts(), self.long.table.histogram()),
        ];
        Report::of(CacheKind::Dentry, tables)
    }

    /// Checks the invariants. No other thread may use the cache meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self) {
        self.short.check_invariants();
        self.long.check_invariants();
    }
}
