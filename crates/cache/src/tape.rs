//! A tape: what the tables of the caches were asked, told as it happens.
//!
//! # Model
//! The tracepoints `mm_filemap_*` and `block:*`, for lookups too, which the kernel has none for.
//! A cache tells its tape of every lookup, of every entry that comes, and of every one that goes,
//! evicted or taken out; who keeps that, and how, is for the tape's maker to say.
//!
//! # Locking
//! An entry's coming and going is told while its bucket is locked, so that of one key they are told in
//! their order, the one after the other; an entry that makes room for a new one of its key goes first.
//! A lookup takes no lock, and may be told after a change that it did not see, or before one that it
//! saw: of each change, at most one lookup of each other thread. A tape takes no lock that is held
//! while a cache is used.
//!
//! # Cost
//! Without a tape, a load and a branch, always the same way, for each lookup.

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
    /// What hash functions by name see of the entry's key, whichever function finds it. Of a name its
    /// [`name_hash`](crate::dentry::name_hash), so that the traces of two mounts agree.
    pub key: HashKey,
}

/// What is told of events.
pub trait Tape: Debug + Send + Sync {
    /// Takes note of `event`, quickly: the table's user waits.
    fn record(&self, event: Event);

    /// How the recording goes on, if it is one.
    fn stats(&self) -> Option<RecordingStats> {
        None
    }
}

/// How a recording goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingStats {
    /// The file.
    pub file: String,
    /// Events in it, or about to be written.
    pub events: u64,
    /// Events that were told and are not in it.
    pub lost: u64,
    /// Why nothing is recorded any more, if something failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl RecordingStats {
    /// What is to be said of a recording that failed.
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
                "the trace {file} cannot be written any more: {why}; it has the first {events} events, and \
                 {lost} are lost"
            )
        })
    }
}

/// Where a table tells its tape, once it has one.
#[derive(Debug)]
pub(crate) struct Tracepoint(OnceLock<(Arc<dyn Tape>, CacheKind)>);

impl Tracepoint {
    pub fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Tells `tape` from now on, unless there is one already.
    pub fn enable(&self, tape: Arc<dyn Tape>, cache: CacheKind) {
        // The first one stays.
        let _ = self.0.set((tape, cache));
    }

    /// Tells of `operation` on what has the key that `key` works out.
    #[inline]
    pub fn tell(&self, operation: Operation, key: impl FnOnce() -> HashKey) {
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
