//! The types that describe a choice of tables, and the named sets of tables.

use super::TableSize;
use crate::hash::Function;
use crate::tape::CacheKind;
use serde::{Deserialize, Serialize};

/// The tables of all caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tables {
    /// The named set from which these tables were derived. The field only affects how the tables are printed.
    pub base: Base,
    /// The search structure of pages.
    pub page: Pages,
    /// The table of buffers. Its keys contain positions on the device, in frames.
    pub buffer: TableChoice,
    /// The table of dentries. Names of 40 bytes or more have a separate table with the same function. With
    /// any size except [`TableSize::Larder`], the separate table has an eighth of the buckets.
    pub dentry: TableChoice,
    /// The table of inodes.
    pub inode: TableChoice,
    /// The lookups of inodes that use the table of inodes.
    pub inode_lookups: InodeLookups,
    /// The mode of shrinking dentries.
    pub shrinking: Shrinking,
}

/// The name of a set of tables.
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
    /// The hash function; `None` for the default.
    pub function: Option<Function>,
    /// The number of buckets, or the rule for it.
    pub size: TableSize,
}

/// The search structure of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// A hash table.
    Hashed(TableChoice),
    /// A red-black tree for each inode.
    RedBlackTrees,
}

impl Default for Pages {
    fn default() -> Self {
        Self::Hashed(TableChoice::default())
    }
}

/// The lookups of inodes that use the table of inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InodeLookups {
    /// All lookups.
    All,
    /// The first lookup of an inode after a miss in the dentry cache, as in the kernel. Other lookups find
    /// the inode by a reference from its number to its slot, or by the table if there is no valid reference.
    #[default]
    AfterDentryMisses,
}

/// The mode of shrinking dentries: when they are scanned for eviction, and how many of them.
/// [`shrink`](crate::shrink) describes the passes of a scan and their priorities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shrinking {
    /// A pass scans dentries if it has scanned a quarter or more of the pages and buffers, and not enough
    /// frames are free. It then scans the same fraction of the dentries.
    #[default]
    Normal,
    /// Each pass scans dentries before all other caches. It scans 1/(priority + 1) of the dentries
    /// (`nr_unused / (priority + 1)`), as A. Arcangeli suggested (Lever 2000, section 3.3).
    Eager,
}

/// Returns a table with `function` and 2^`bits` buckets.
const fn hashed(function: Function, bits: u32) -> TableChoice {
    TableChoice {
        function: Some(function),
        size: TableSize::Bits(bits),
    }
}

impl Tables {
    /// The tables `larder`, the default of a mount.
    pub const LARDER: Self = Self {
        base: Base::Larder,
        page: Pages::Hashed(TableChoice::LARDER),
        buffer: TableChoice::LARDER,
        dentry: TableChoice::LARDER,
        inode: TableChoice::LARDER,
        inode_lookups: InodeLookups::AfterDentryMisses,
        shrinking: Shrinking::Normal,
    };

    /// The tables `reference`, those of Linux 2.2.5.
    pub const REFERENCE: Self = Self {
        base: Base::Reference,
        page: Pages::Hashed(hashed(Function::PageReference, 11)),
        buffer: hashed(Function::BufferReference, 15),
        dentry: hashed(Function::DentryReference, 10),
        inode: hashed(Function::InodeReference, 8),
        inode_lookups: InodeLookups::AfterDentryMisses,
        shrinking: Shrinking::Normal,
    };

    /// The tables of Lever's kernel `A`.
    pub const A: Self = Self {
        base: Base::A,
        page: Pages::Hashed(hashed(Function::PageMult, 13)),
        buffer: hashed(Function::BufferMult11, 14),
        dentry: hashed(Function::DentryAdd, 13),
        inode: hashed(Function::InodeModified, 11),
        inode_lookups: InodeLookups::AfterDentryMisses,
        shrinking: Shrinking::Normal,
    };

    /// The tables of Lever's kernel `B`.
    pub const B: Self = Self {
        base: Base::B,
        buffer: hashed(Function::BufferSteiner, 14),
        ..Self::A
    };

    /// The tables of Lever's kernel `C`.
    pub const C: Self = Self {
        base: Base::C,
        page: Pages::Hashed(hashed(Function::PageReference, 13)),
        ..Self::A
    };

    /// The tables of Lever's kernel `D`.
    pub const D: Self = Self {
        base: Base::D,
        page: Pages::Hashed(hashed(Function::PageOffset, 13)),
        ..Self::A
    };

    /// All named sets of tables, with their names.
    pub const NAMED: [(&str, Self); 6] = [
        ("larder", Self::LARDER),
        ("reference", Self::REFERENCE),
        ("A", Self::A),
        ("B", Self::B),
        ("C", Self::C),
        ("D", Self::D),
    ];

    /// Returns the table of `cache`, or `None` for pages in trees.
    #[must_use]
    pub fn table(mut self, cache: CacheKind) -> Option<TableChoice> {
        self.table_mut(cache).copied()
    }

    /// Returns true if the size of any table is not determined by Larder's rule.
    pub(crate) fn has_chosen_sizes(&self) -> bool {
        let tables = CacheKind::ALL.map(|cache| self.table(cache));
        let mut tables = tables.iter().flatten();
        tables.any(|table| table.size != TableSize::Larder)
    }

    pub(super) fn table_mut(&mut self, cache: CacheKind) -> Option<&mut TableChoice> {
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
    /// Larder's own function and size.
    pub const LARDER: Self = Self {
        function: None,
        size: TableSize::Larder,
    };
}

/// The search structure of a cache, as statistics and results record it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Finder {
    /// A hash table with the default hash function.
    #[default]
    Larder,
    /// A hash table with a named hash function.
    Function(Function),
    /// Red-black trees, one for each inode.
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
