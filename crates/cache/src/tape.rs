//! A tape: what the tables of the caches were asked, told as it happens.
//!
//! # Model
//! The tracepoints `mm_filemap_*` and `block:*`, for lookups too, which the kernel has none for.
//! A cache tells its tape of every lookup, of every entry that comes, and of every one that goes,
//! evicted or taken out; who keeps that, and how, is for the tape's maker to say.
//!
//! # Locking
//! An entry's coming and going is told while its bucket is locked, so that of one key they are told in
//! their order. A tape takes no lock that is held while a cache is used.

use crate::hash::HashKey;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// One of the four caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// File pages.
    Page,
    /// Metadata blocks.
    Buffer,
    /// Names.
    Dentry,
    /// Inodes.
    Inode,
}

impl CacheKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Page, Self::Buffer, Self::Dentry, Self::Inode];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Buffer => "buffer",
            Self::Dentry => "dentry",
            Self::Inode => "inode",
        }
    }
}

/// What happened in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An entry was looked for.
    Lookup {
        /// Whether it was there.
        hit: bool,
    },
    /// An entry came.
    Insert,
    /// An entry went.
    Remove,
}

/// What happened, in which cache, to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The cache.
    pub cache: CacheKind,
    /// What happened.
    pub operation: Operation,
    /// What the hash function sees of the entry's key.
    pub key: HashKey,
}

/// What is told of events.
pub trait Tape: Debug + Send + Sync {
    /// Takes note of `event`, quickly: the table's user waits.
    fn record(&self, event: Event);
}
