//! Tables: which hash functions the caches have, how many buckets, and how dentries are shrunk.
//!
//! # Model
//! The kernels that Lever measured, by name (Lever 2000, section 4), and what any of their tables
//! could be replaced by. A volume is opened with one of them:
//!
//! ```text
//! BASE[+CACHE=FUNCTION[/SIZE]]...[+sizes=RULE][+shrink=normal|eager]
//! ```
//!
//! | | one of |
//! |---|---|
//! | `BASE` | `larder` (ours, and what is meant if it is left out), `reference`, `A`, `B`, `C`, `D` |
//! | `CACHE` | `page`, `buffer`, `dentry`, `inode` |
//! | `FUNCTION` | a [`Function`] of the cache, with or without the cache's name; `larder`; for pages, `rbtree` |
//! | `SIZE` | 2^`SIZE` buckets, or a `RULE`; left out, as before |
//! | `RULE` | `larder`, `2.2.16`, `today`: [`TableSize`] |
//!
//! ```
//! # use larder_cache::tables::Tables;
//! let tables: Tables = "D+page=rbtree+dentry=mult-11/14+shrink=eager".parse().unwrap();
//! # assert_eq!(tables.to_string().parse(), Ok(tables));
//! ```
//!
//! # Flooding
//! Only our own function of dentries has a seed. By any other, an image can be made whose names all
//! share a bucket, and each lookup then walks all of them, up to as many as the cache holds. So can,
//! by any function, inode numbers and blocks be chosen, but an image that has many of them is
//! as large. Do not open images of strangers with published functions.

mod parse;
mod size;

pub use parse::UnknownTables;
pub(crate) use size::Memory;
pub use size::TableSize;

pub use crate::hash::Function;
use crate::hash::HashKey;
use crate::table::HashFunction;
pub use crate::table::TreeDepths;
use crate::tape::CacheKind;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// The tables of all caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tables {
    /// Whose tables these are but for what was changed: what they are called after, no more.
    pub base: Base,
    /// How pages are found.
    pub page: Pages,
    /// How buffers are found. Their index, for the function, counts frames of the device.
    pub buffer: TableChoice,
    /// How dentries are found. Names of 40 bytes or more have a table of their own, with an eighth
    /// as many buckets.
    pub dentry: TableChoice,
    /// How inodes are found.
    pub inode: TableChoice,
    /// How dentries are shrunk.
    pub shrinking: Shrinking,
}

/// Tables that have a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// [`Tables::LARDER`].
    #[default]
    Larder,
    /// [`Tables::REFERENCE`].
    Reference,
    /// [`Tables::A`].
    A,
    /// [`Tables::B`].
    B,
    /// [`Tables::C`].
    C,
    /// [`Tables::D`].
    D,
}

/// The table of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableChoice {
    /// Its hash function; ours if none.
    pub function: Option<Function>,
    /// Its size.
    pub size: TableSize,
}

/// How pages are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// In a hash table.
    Hashed(TableChoice),
    /// In a red-black tree for each inode.
    RedBlackTrees,
}

impl Default for Pages {
    fn default() -> Self {
        Self::Hashed(TableChoice::default())
    }
}

/// When dentries are asked for memory, and how hard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shrinking {
    /// When a quarter of the pages and buffers gave too little, for as large a share of them.
    #[default]
    Normal,
    /// Whenever memory is short, before anything else, for 1/(priority + 1) of them:
    /// `nr_unused / (priority + 1)`, as A. Arcangeli suggested (Lever 2000, section 3.3).
    Eager,
}

/// A function for the table of `cache`.
const fn hashed(function: Function, bits: u32) -> TableChoice {
    TableChoice {
        function: Some(function),
        size: TableSize::Bits(bits),
    }
}

impl Tables {
    /// What is called `larder`: ours.
    pub const LARDER: Self = Self {
        base: Base::Larder,
        page: Pages::Hashed(TableChoice::LARDER),
        buffer: TableChoice::LARDER,
        dentry: TableChoice::LARDER,
        inode: TableChoice::LARDER,
        shrinking: Shrinking::Normal,
    };

    /// What is called `reference`: Linux 2.2.5.
    pub const REFERENCE: Self = Self {
        base: Base::Reference,
        page: Pages::Hashed(hashed(Function::PageReference, 11)),
        buffer: hashed(Function::BufferReference, 15),
        dentry: hashed(Function::DentryReference, 10),
        inode: hashed(Function::InodeReference, 8),
        shrinking: Shrinking::Normal,
    };

    /// The published kernel `A`.
    pub const A: Self = Self {
        base: Base::A,
        page: Pages::Hashed(hashed(Function::PageMult, 13)),
        buffer: hashed(Function::BufferMult11, 14),
        dentry: hashed(Function::DentryAdd, 13),
        inode: hashed(Function::InodeModified, 11),
        shrinking: Shrinking::Normal,
    };

    /// The published kernel `B`.
    pub const B: Self = Self {
        base: Base::B,
        buffer: hashed(Function::BufferSteiner, 14),
        ..Self::A
    };

    /// The published kernel `C`.
    pub const C: Self = Self {
        base: Base::C,
        page: Pages::Hashed(hashed(Function::PageReference, 13)),
        ..Self::A
    };

    /// The published kernel `D`.
    pub const D: Self = Self {
        base: Base::D,
        page: Pages::Hashed(hashed(Function::PageOffset, 13)),
        ..Self::A
    };

    /// All that have a name, by it.
    pub const NAMED: [(&str, Self); 6] = [
        ("larder", Self::LARDER),
        ("reference", Self::REFERENCE),
        ("A", Self::A),
        ("B", Self::B),
        ("C", Self::C),
        ("D", Self::D),
    ];

    /// The table of `cache`; none for pages in trees.
    #[must_use]
    pub fn table(&self, cache: CacheKind) -> Option<&TableChoice> {
        match (cache, &self.page) {
            (CacheKind::Page, Pages::Hashed(choice)) => Some(choice),
            (CacheKind::Page, Pages::RedBlackTrees) => None,
            (CacheKind::Buffer, _) => Some(&self.buffer),
            (CacheKind::Dentry, _) => Some(&self.dentry),
            (CacheKind::Inode, _) => Some(&self.inode),
        }
    }

    /// Whether a table has another size than our rule gives it.
    pub(crate) fn has_chosen_sizes(&self) -> bool {
        let tables = CacheKind::ALL.map(|cache| self.table(cache));
        let mut tables = tables.into_iter().flatten();
        tables.any(|table| table.size != TableSize::Larder)
    }

    fn table_mut(&mut self, cache: CacheKind) -> Option<&mut TableChoice> {
        match (cache, &mut self.page) {
            (CacheKind::Page, Pages::Hashed(choice)) => Some(choice),
            (CacheKind::Page, Pages::RedBlackTrees) => None,
            (CacheKind::Buffer, _) => Some(&mut self.buffer),
            (CacheKind::Dentry, _) => Some(&mut self.dentry),
            (CacheKind::Inode, _) => Some(&mut self.inode),
        }
    }
}

impl TableChoice {
    /// Ours.
    pub const LARDER: Self = Self {
        function: None,
        size: TableSize::Larder,
    };
}

/// What finds the objects of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Finder {
    /// Our hash function.
    #[default]
    Larder,
    /// A function by name.
    Function(Function),
    /// Red-black trees.
    RedBlackTrees,
}

impl From<Function> for Finder {
    fn from(function: Function) -> Self {
        Self::Function(function)
    }
}

impl From<Option<Function>> for Finder {
    fn from(function: Option<Function>) -> Self {
        function.map_or(Self::Larder, Self::Function)
    }
}

/// The hash function of a cache's table: the cache's own, or one by name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TableHash<D> {
    Own(D),
    Named(Function),
}

impl<D> TableHash<D> {
    pub(crate) fn new(function: Option<Function>, own: D) -> Self {
        function.map_or(Self::Own(own), Self::Named)
    }

    pub(crate) fn finder(&self) -> Finder {
        match self {
            Self::Own(_) => Finder::Larder,
            Self::Named(function) => Finder::Function(*function),
        }
    }
}

impl<T: Copy + Into<HashKey>, D: HashFunction<T>> HashFunction<T> for TableHash<D> {
    #[inline]
    fn bucket(&self, value: T, bits: u32) -> u32 {
        match self {
            Self::Own(own) => own.bucket(value, bits),
            Self::Named(function) => bucket_of(*function, value.into(), bits),
        }
    }
}

/// Out of line, so that our own lookups stay short.
#[inline(never)]
fn bucket_of(function: Function, key: HashKey, bits: u32) -> u32 {
    function.bucket(key, bits)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
