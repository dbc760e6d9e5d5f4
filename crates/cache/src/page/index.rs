//! The index of a cache over the frames: the search structure that finds the frame of a page. It is a hash
//! table, or an implementation of [`PageIndex`].

use super::key::{PAGE_WORDS, PageKey, PageLayout};
use crate::stats::CacheStats;
use crate::table::histogram::Report;
use crate::table::{Found, Hash64, Inserted, Layout, LockAttempt, State, Table, Vacant};
use crate::tables::TableHash;
use crate::tape::{CacheKind, Tape};
use std::fmt::Debug;
use std::sync::Arc;

/// A hash table whose entries are frames.
pub(crate) type FrameTable = Table<PageLayout, TableHash<Hash64>, PAGE_WORDS>;

/// An index of pages that is not the hash table. Each method must do for pages what the method of
/// [`Table`] with the same name does.
pub(crate) trait PageIndex: Debug + Send + Sync {
    fn get(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>>;
    fn get_again(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>>;
    fn contains(&self, key: &PageKey) -> bool;
    fn is_uptodate(&self, key: &PageKey) -> bool;
    fn take_flag(&self, key: &PageKey, flag: u64) -> bool;
    fn lock(&self, key: &PageKey) -> Option<LockAttempt>;
    /// Returns the page of `key`, or inserts it in the slot `vacant` with `flags`. An insertion sets the half word
    /// ([`Slot::aux`](crate::table::Slot::aux)) to 0.
    fn get_or_insert<'a>(
        &'a self,
        key: &PageKey,
        vacant: Vacant<'a, PAGE_WORDS>,
        flags: u64,
    ) -> Inserted<'a, PAGE_WORDS>;
    fn remove_entry(&self, key: &PageKey) -> Option<State>;
    fn unlink(&self, frame: u32);
    fn abandon(&self, frame: u32) -> bool;
    fn set_tape(&self, tape: Arc<dyn Tape>);
    fn objects(&self) -> u64;
    /// Returns the counts of lookups, and the depths of the pages in trees.
    fn report(&self) -> Report;
    /// Returns the statistics of a cache with room for `capacity` pages of `page_bytes` bytes each.
    fn stats(&self, capacity: u64, page_bytes: u64) -> CacheStats;
    fn check_invariants(&self);
}

/// The index of a cache over the frames. The hash table, which is the default, is called directly. Any
/// other index is called through its trait. Each method does for frames what the method of [`Table`] with
/// the same name does.
#[derive(Debug)]
pub(crate) enum FrameIndex {
    Table(FrameTable),
    Other(Box<dyn PageIndex>),
}

macro_rules! either {
    ($self:ident, $index:ident => $call:expr) => {
        match $self {
            FrameIndex::Table($index) => $call,
            FrameIndex::Other($index) => $call,
        }
    };
}

impl FrameIndex {
    #[inline]
    pub fn get(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>> {
        either!(self, index => index.get(key))
    }

    pub fn get_again(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>> {
        either!(self, index => index.get_again(key))
    }

    pub fn contains(&self, key: &PageKey) -> bool {
        either!(self, index => index.contains(key))
    }

    pub fn is_uptodate(&self, key: &PageKey) -> bool {
        either!(self, index => index.is_uptodate(key))
    }

    pub fn take_flag(&self, key: &PageKey, flag: u64) -> bool {
        either!(self, index => index.take_flag(key, flag))
    }

    pub fn lock(&self, key: &PageKey) -> Option<LockAttempt> {
        either!(self, index => index.lock(key))
    }

    pub fn get_or_insert<'a>(
        &'a self,
        key: &PageKey,
        vacant: Vacant<'a, PAGE_WORDS>,
        flags: u64,
    ) -> Inserted<'a, PAGE_WORDS> {
        match self {
            Self::Table(table) => table.get_or_insert(key, vacant, flags, |slot| slot.set_aux(0)),
            Self::Other(other) => other.get_or_insert(key, vacant, flags),
        }
    }

    pub fn remove_entry(&self, key: &PageKey) -> Option<State> {
        either!(self, index => index.remove_entry(key))
    }

    pub fn unlink(&self, frame: u32) {
        either!(self, index => index.unlink(frame));
    }

    pub fn abandon(&self, frame: u32) -> bool {
        either!(self, index => index.abandon(frame))
    }

    pub fn set_tape(&self, tape: Arc<dyn Tape>, cache: CacheKind) {
        match self {
            Self::Table(table) => table.set_tape(tape, cache),
            // The kind of cache is not passed on: only the page cache can have another index.
            Self::Other(other) => other.set_tape(tape),
        }
    }

    /// Returns the number of frames in the index.
    pub fn objects(&self) -> u64 {
        either!(self, index => index.objects())
    }

    /// Returns the counts of lookups of `cache`, and the lengths of its chains or the depths of its trees.
    pub fn report(&self, cache: CacheKind) -> Report {
        match self {
            Self::Table(table) => Report::of(cache, [(table.counts(), table.histogram())]),
            Self::Other(other) => other.report(),
        }
    }

    /// Returns the statistics of a cache with room for `capacity` frames of `frame_bytes` bytes each.
    pub fn stats(&self, capacity: u64, frame_bytes: u64) -> CacheStats {
        match self {
            Self::Table(table) => CacheStats::of(table, capacity, frame_bytes),
            Self::Other(other) => other.stats(capacity, frame_bytes),
        }
    }

    pub fn check_invariants(&self) {
        match self {
            Self::Table(table) => {
                let key = PageLayout::hash_input_in;
                table.check_invariants(|a, b| key(a) == key(b));
            }
            Self::Other(other) => other.check_invariants(),
        }
    }
}
