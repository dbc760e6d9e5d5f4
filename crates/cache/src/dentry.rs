//! The dentry cache: what a name in a directory stands for, found by the
//! directory's inode number and the name.
//!
//! # Model
//! `d_lookup`, with negative dentries: that a name does not exist is cached,
//! too. A lookup copies the answer out, without lock or reference count. There
//! is no tree of dentries: nothing here needs a parent to stay.
//!
//! # Names
//! Names up to 40 bytes lie in the slot, which is one cache line of 64 bytes.
//! Longer ones have a table of their own, with slots that hold 255. A name is
//! padded with zeros, so one that contains a zero, which no valid name does, is
//! never cached.
//!
//! # Hash
//! An image's author chooses names and inode numbers. So that they cannot choose
//! them to share a bucket, whose chain every lookup would have to walk, both are
//! hashed with a seed that is drawn when the caches are made
//! ([`BudgetConfig::name_seed`](crate::budget::BudgetConfig::name_seed)).
//!
//! # Cost
//! 64 bytes a dentry and 4 for a bucket; 280 with a long name.

use crate::budget::ArenaConfig;
use crate::stats::CacheStats;
use crate::table::histogram::Report;
use crate::table::{Arena, Charge, Growth, Layout, SeededHash, Slot, Table};
use crate::tape::CacheKind;
use std::io;
use std::sync::Arc;

/// Words of a slot with a short name: numbers, and 40 bytes.
const SHORT_WORDS: usize = 6;
/// Words of a slot with a long name: numbers, and 256 bytes.
const LONG_WORDS: usize = 33;
/// Size of a slot with a short name in bytes.
pub(crate) const SHORT_BYTES: usize = size_of::<Slot<SHORT_WORDS>>();
/// Size of a slot with a long name in bytes.
pub(crate) const LONG_BYTES: usize = size_of::<Slot<LONG_WORDS>>();
/// Longest name of a directory entry in bytes.
const NAME_MAX: usize = 255;

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

/// A name in a directory, ready to be compared and hashed. `N` words hold it.
#[derive(Debug)]
struct Name<const N: usize> {
    parent: u32,
    hash: u32,
    words: [u64; N],
    /// Words that are not all padding.
    used: usize,
}

impl<const N: usize> Name<N> {
    /// `None` if the name does not fit, or cannot be told from another.
    #[inline]
    fn new(seeded: SeededHash, parent: u32, name: &[u8]) -> Option<Self> {
        if name.is_empty() || name.len() > (N * 8).min(NAME_MAX) || name.contains(&0) {
            return None;
        }
        let mut words = [0; N];
        let mut hash = u64::from(parent);
        let (whole, rest) = name.as_chunks::<8>();
        for (word, bytes) in words.iter_mut().zip(whole) {
            *word = u64::from_le_bytes(*bytes);
            hash = seeded.fold(hash, *word);
        }
        if !rest.is_empty() {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            let word = u64::from_le_bytes(bytes);
            words[whole.len()] = word;
            hash = seeded.fold(hash, word);
        }
        Some(Self {
            parent,
            // The upper 24 bits: the half word holds these and the file type.
            hash: u32::try_from(hash >> 40).unwrap_or_default(),
            words,
            used: name.len().div_ceil(8),
        })
    }
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
    fn new(seeded: SeededHash, parent: u32, name: &[u8]) -> Option<Self> {
        match Name::new(seeded, parent, name) {
            Some(name) => Some(Self::Short(name)),
            None => Self::new_long(seeded, parent, name),
        }
    }

    #[cold]
    fn new_long(seeded: SeededHash, parent: u32, name: &[u8]) -> Option<Self> {
        Name::new(seeded, parent, name).map(Self::Long)
    }
}

/// What the hash function sees of a name.
#[derive(Clone, Copy, Debug)]
struct Hashed {
    parent: u32,
    name: u32,
}

impl From<Hashed> for u64 {
    #[inline]
    fn from(hashed: Hashed) -> Self {
        u64::from(hashed.name) | u64::from(hashed.parent) << 24
    }
}

/// Parent in the upper half of the first word, inode number in the lower; the
/// name in the others; 24 bits of its hash and the file type in the half word.
#[derive(Debug)]
struct NameLayout<const N: usize>;

impl<const N: usize, const W: usize> Layout<W> for NameLayout<N> {
    type Key<'k> = Name<N>;
    type Hashed = Hashed;

    #[inline]
    fn hashed(key: &Name<N>) -> Hashed {
        Hashed {
            parent: key.parent,
            name: key.hash,
        }
    }

    fn hashed_in(slot: &Slot<W>) -> Hashed {
        Hashed {
            parent: upper(slot.word(0)),
            name: slot.aux() >> 8,
        }
    }

    #[inline]
    fn matches(key: &Name<N>, slot: &Slot<W>) -> bool {
        // Beyond the name's words are zeros: where the last one has none, one
        // word more tells a longer name.
        slot.aux() >> 8 == key.hash
            && upper(slot.word(0)) == key.parent
            && (0..N.min(key.used + 1)).all(|i| slot.word(i + 1) == key.words[i])
    }

    fn store(key: &Name<N>, slot: &Slot<W>) {
        slot.set_aux(key.hash << 8);
        slot.set_word(0, u64::from(key.parent) << 32);
        for (i, word) in key.words.iter().enumerate() {
            slot.set_word(i + 1, *word);
        }
    }
}

#[inline]
fn upper(word: u64) -> u32 {
    u32::try_from(word >> 32).unwrap_or_default()
}

#[inline]
fn lower(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or_default()
}

/// A table of names that fit in `N` words; `W` is `N` + 1.
#[derive(Debug)]
struct Names<const N: usize, const W: usize> {
    table: Table<NameLayout<N>, SeededHash, W>,
}

impl<const N: usize, const W: usize> Names<N, W> {
    fn new(config: ArenaConfig, charge: Arc<dyn Charge>, seeded: SeededHash) -> io::Result<Self> {
        const { assert!(N + 1 == W) };
        let growth = Growth::Charged {
            chunk: config.chunk,
            charge,
        };
        let arena = Arc::new(Arena::new(config.slots, growth)?);
        Ok(Self {
            table: Table::new(arena, config.bits, 0, seeded)?,
        })
    }

    #[inline]
    fn get(&self, name: &Name<N>) -> Option<Dentry> {
        let (ino, aux) = self
            .table
            .copy(name, |slot| (lower(slot.word(0)), slot.aux()))?;
        let [file_type, ..] = aux.to_le_bytes();
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
        if let Some(vacant) = self.table.take() {
            self.table.replace(name, vacant, |slot| {
                slot.set_aux(name.hash << 8 | u32::from(file_type));
                slot.set_word(0, u64::from(name.parent) << 32 | u64::from(ino));
            });
        }
    }

    fn stats(&self) -> CacheStats {
        CacheStats::of(&self.table, self.table.arena().capacity().into(), 0)
    }

    fn check_invariants(&self) {
        self.table.check_invariants(|a, b| {
            upper(a.word(0)) == upper(b.word(0)) && (1..W).all(|i| a.word(i) == b.word(i))
        });
    }
}

/// The dentry cache.
#[derive(Debug)]
pub struct DentryCache {
    short: Names<{ SHORT_WORDS - 1 }, SHORT_WORDS>,
    long: Names<{ LONG_WORDS - 1 }, LONG_WORDS>,
    seeded: SeededHash,
}

impl DentryCache {
    /// A cache of the given sizes, which asks the charges for memory as it grows.
    /// `seed` is what the hashes of names depend on.
    ///
    /// # Errors
    /// The kernel's, for want of address space most likely.
    pub fn new(
        short: (ArenaConfig, Arc<dyn Charge>),
        long: (ArenaConfig, Arc<dyn Charge>),
        seed: [u64; 2],
    ) -> io::Result<Self> {
        let seeded = SeededHash::new(seed);
        Ok(Self {
            short: Names::new(short.0, short.1, seeded)?,
            long: Names::new(long.0, long.1, seeded)?,
            seeded,
        })
    }

    /// What `name` in directory `parent` stands for, if that is cached. Takes no
    /// lock.
    #[must_use]
    #[inline]
    pub fn get(&self, parent: u32, name: &[u8]) -> Option<Dentry> {
        match KeyedName::new(self.seeded, parent, name)? {
            KeyedName::Short(name) => self.short.get(&name),
            KeyedName::Long(name) => self.long.get(&name),
        }
    }

    /// Caches what `name` in directory `parent` stands for, in place of what is
    /// cached for it. Does nothing if there is no room, or with a name that no
    /// directory can have: it is a cache.
    pub fn insert(&self, parent: u32, name: &[u8], dentry: Dentry) {
        match KeyedName::new(self.seeded, parent, name) {
            Some(KeyedName::Short(name)) => self.short.insert(&name, dentry),
            Some(KeyedName::Long(name)) => self.long.insert(&name, dentry),
            None => {}
        }
    }

    /// Drops `name` in directory `parent`; false if it is not cached.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn remove(&self, parent: u32, name: &[u8]) -> bool {
        match KeyedName::new(self.seeded, parent, name) {
            Some(KeyedName::Short(name)) => self.short.table.remove(&name),
            Some(KeyedName::Long(name)) => self.long.table.remove(&name),
            None => false,
        }
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
