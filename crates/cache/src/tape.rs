//! The tape: the interface through which the tables of the caches report their events, and a volume reports reads of
//! files.
//!
//! # Model
//! The kernel's tracepoints `mm_filemap_*` and `block:*`. In addition, lookups are reported, for which the
//! kernel has no tracepoints. A cache reports every lookup, every insertion, and every removal or eviction
//! to its tape. The tape decides whether and how to store the events.
//!
//! # Locking
//! A table reports an insertion or removal while the bucket is locked, so that the changes of one key
//! are reported in their order. If a new entry replaces an entry of the same key, the removal is reported
//! before the insertion. A lookup takes no lock, and is reported after it has ended. So the order of the
//! reports can differ from the order of the operations in two ways. A lookup that ended before a change
//! may be reported after the change; for each change, this happens to at most one lookup of each other
//! thread. A lookup that saw a change may be reported before the change; this can happen to each lookup
//! that ends before the change is reported. A tape must not take a lock that a thread holds while it uses
//! a cache.
//!
//! # Cost
//! Without a tape, each operation costs a load and a predictable branch.

use crate::hash::HashKey;
use crate::sync::thread_number;
use crate::thread_number::Uncounted;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One of the four caches that report events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// File pages.
    Page,
    /// Metadata blocks.
    Buffer,
    /// Names in directories, and the inodes to which they refer.
    Dentry,
    /// Inodes.
    Inode,
}

impl CacheKind {
    /// All caches.
    pub const ALL: [Self; 4] = [Self::Page, Self::Buffer, Self::Dentry, Self::Inode];

    /// Returns the name of the cache.
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
    /// A removal of an entry for a reason other than the size of the cache: its object no longer exists or has
    /// changed, or is unlikely to be used again. In traces of other sources, the reason of a removal may be unknown.
    Remove,
    /// An eviction of an entry, because memory was needed. A larger cache would still have it.
    Evict,
}

/// One operation on an entry of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The cache.
    pub cache: CacheKind,
    /// The operation.
    pub operation: Operation,
    /// The key of the entry, in the form that all hash functions of [`hash`](crate::hash) accept. It does
    /// not depend on the function that the table uses. A name is represented by its
    /// [`name_hash`](crate::dentry::name_hash), which has no seed, so that the traces of two mounts agree.
    pub key: HashKey,
}

/// A read of a file, which has just ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadEvent {
    /// The inode number of the file.
    pub ino: u64,
    /// The first byte.
    pub offset_bytes: u64,
    /// The number of bytes from there to the end of the request or of the file, whichever is first.
    pub len_bytes: usize,
    /// The size of the file in bytes.
    pub file_bytes: u64,
    /// The number of the open file, from 1, if the open file has a readahead state of its own; otherwise 0.
    pub stream: u32,
    /// The thread that reads: see [`CallerScope`].
    pub thread: u32,
    /// The time that the read took.
    pub duration: Duration,
}

/// The name of a file, which was looked up or created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameEvent<'a> {
    /// The inode number of the directory.
    pub directory: u64,
    /// The name in the directory.
    pub name: &'a [u8],
    /// The inode number of the file.
    pub ino: u64,
}

/// A receiver of events of caches, and of reads of files.
pub trait Tape: Debug + Send + Sync {
    /// Records `event`. The call must be fast, because it delays the operation on the cache.
    fn record(&self, event: Event);

    /// Returns whether [`Tape::record_read`] records reads. This must not change.
    fn records_reads(&self) -> bool {
        false
    }

    /// Records a read of a file.
    fn record_read(&self, _read: &ReadEvent) {}

    /// Returns whether [`Tape::record_name`] records names. This must not change.
    fn records_names(&self) -> bool {
        false
    }

    /// Records the name of a file. A name can be reported several times.
    fn record_name(&self, _name: &NameEvent<'_>) {}

    /// Returns the progress of the recording, or `None` if the tape does not record to a file.
    fn stats(&self) -> Option<RecordingStats> {
        None
    }
}

/// The progress of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingStats {
    /// The name of the trace file.
    pub file: String,
    /// The number of recorded events: those in the file, and those that are about to be written to it.
    pub events: u64,
    /// The number of events that were reported, but are not recorded in the file.
    pub lost: u64,
    /// The error that ended the recording, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl RecordingStats {
    /// Returns a message if the recording has failed.
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

thread_local! {
    static CALLER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The time in which this thread works for another thread, such as a thread that uses a mount. While the scope exists,
/// reads are reported as reads of that thread.
#[derive(Debug)]
#[must_use = "the scope ends when it is dropped"]
pub struct CallerScope {
    outer: Option<u32>,
    /// The scope belongs to one thread.
    _not_send: PhantomData<*const ()>,
}

impl CallerScope {
    /// Begins a scope for the thread with the ID `thread`; 0 is an unknown thread.
    pub fn begin(thread: u32) -> Self {
        Self {
            outer: CALLER.replace(Some(thread)),
            _not_send: PhantomData,
        }
    }

    /// Returns the ID of the thread for which this thread works. Outside of any scope, returns a number of this thread,
    /// from 1.
    #[must_use]
    pub fn thread() -> u32 {
        let own =
            || u32::try_from(thread_number()).map_or(u32::MAX, |number| number.saturating_add(1));
        CALLER.get().unwrap_or_else(own)
    }
}

impl Drop for CallerScope {
    fn drop(&mut self) {
        CALLER.set(self.outer);
    }
}

/// The point where a table reports its events. It has no effect until a tape is connected.
#[derive(Debug)]
pub(crate) struct Tracepoint(OnceLock<(Arc<dyn Tape>, CacheKind)>);

impl Tracepoint {
    pub fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Connects `tape`, unless another tape is connected already.
    pub fn enable(&self, tape: Arc<dyn Tape>, cache: CacheKind) {
        // A tape that was connected earlier stays.
        let _ = self.0.set((tape, cache));
    }

    /// Reports `operation` to the tape, if one is connected. `key` computes the key of the entry.
    #[inline]
    pub fn record(&self, operation: Operation, key: impl FnOnce() -> HashKey) {
        if let Some((tape, cache)) = self.0.get() {
            record(&**tape, *cache, operation, key());
        }
    }
}

#[cold]
fn record(tape: &dyn Tape, cache: CacheKind, operation: Operation, key: HashKey) {
    if matches!(operation, Operation::Lookup { .. }) && Uncounted::is_active() {
        return;
    }
    tape.record(Event {
        cache,
        operation,
        key,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_scope_restores_the_outer_caller() {
        let own = CallerScope::thread();
        assert!(own > 0);
        let outer = CallerScope::begin(7);
        let inner = CallerScope::begin(0);
        assert_eq!(CallerScope::thread(), 0);
        drop(inner);
        assert_eq!(CallerScope::thread(), 7);
        drop(outer);
        assert_eq!(CallerScope::thread(), own);
    }
}
