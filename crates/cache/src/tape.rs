//! The tape: the interface through which the tables of the caches report their events.
//!
//! # Model
//! The tracepoints `mm_filemap_*` and `block:*`, and also lookups, for which the kernel has no
//! tracepoints. A cache reports every lookup, every insertion, and every removal or eviction to its
//! tape. The implementation of the tape decides whether and how to store them.
//!
//! # Locking
//! Insertions and removals are reported while the bucket is locked, so those of one key are reported
//! in their order. If an entry makes room for a new one of its key, its removal is reported first. A
//! lookup takes no lock. It may be reported after a change that it did not see, or before one that it
//! saw: for each change, at most one lookup of each other thread. A tape takes no lock that is held
//! while a cache is used.
//!
//! # Cost
//! Without a tape, a load and a predictable branch for each lookup.

use crate::hash::HashKey;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

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
    /// All caches.
    pub const ALL: [Self; 4] = [Self::Page, Self::Buffer, Self::Dentry, Self::Inode];

    /// Returns its name.
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

/// An operation on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A lookup of an entry.
    Lookup {
        /// Whether the entry was found.
        hit: bool,
    },
    /// An insertion of an entry.
    Insert,
    /// A removal or eviction of an entry.
    Remove,
}

/// An operation, its cache and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The cache.
    pub cache: CacheKind,
    /// The operation.
    pub operation: Operation,
    /// The input of named hash functions for the entry's key, whichever function the table uses. For a
    /// name this contains its [`name_hash`](crate::dentry::name_hash), so that the traces of two
    /// mounts agree.
    pub key: HashKey,
}

/// Receives events of caches.
pub trait Tape: Debug + Send + Sync {
    /// Records `event`. This must be fast, because the user of the table waits.
    fn record(&self, event: Event);

    /// Returns the progress of the recording, if the tape is one.
    fn stats(&self) -> Option<RecordingStats> {
        None
    }
}

/// The progress of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingStats {
    /// The file.
    pub file: String,
    /// Events in the file, or about to be written to it.
    pub events: u64,
    /// Events that were reported and are not in the file.
    pub lost: u64,
    /// The error that ended the recording, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl RecordingStats {
    /// Returns a message about a recording that failed.
    #[must_use]
    pub fn alarm(&self) -> Option<String> {
        let Self {
            file,
            events,
            lost,
            failure,
        } = self;
        failure.as_ref().map(|why| {
            format!(
                "the trace {file} cannot be written any more: {why}; events in the trace: {events}, \
                 lost: {lost}"
            )
        })
    }
}

/// The connection of a table to its tape, if it has one.
#[derive(Debug)]
pub(crate) struct Tracepoint(OnceLock<(Arc<dyn Tape>, CacheKind)>);

impl Tracepoint {
    pub fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Connects `tape`, unless another tape is connected already.
    pub fn enable(&self, tape: Arc<dyn Tape>, cache: CacheKind) {
        // The first one stays.
        let _ = self.0.set((tape, cache));
    }

    /// Reports `operation` on the entry whose key `key` computes.
    #[inline]
    pub fn record(&self, operation: Operation, key: impl FnOnce() -> HashKey) {
        if let Some((tape, cache)) = self.0.get() {
            record(&**tape, *cache, operation, key());
        }
    }
}

#[cold]
fn record(tape: &dyn Tape, cache: CacheKind, operation: Operation, key: HashKey) {
    tape.record(Event {
        cache,
        operation,
        key,
    });
}
